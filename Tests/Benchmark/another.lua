-- For wrk: each request asks for another path than the one before, and gets another answer (origin.c).
local number = 0

function request()
  number = number + 1
  return wrk.format(nil, "/another/" .. number)
end

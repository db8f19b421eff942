#pragma once
// _GNU_SOURCE stays undefined: with it, structures of the C library differ from those that other modules
// (CDispatch, COpenSSL) have seen, and the importer refuses both.
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif
#ifndef CLOCK_BOOTTIME
#define CLOCK_BOOTTIME 7
#endif

// What the Glibc module does not carry (a _GNU_SOURCE function, a macro, a packed union), as plain functions.

/// One readiness event, unpacked from struct epoll_event (which is packed on x86-64).
struct bearerd_ready {
  uint32_t events;
  uint64_t data;
};

#define BEARERD_READY_MAX 128

static inline int bearerd_epoll_add(int set, int descriptor, uint32_t events, uint64_t data) {
  struct epoll_event event;
  event.events = events;
  event.data.u64 = data;
  return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event);
}

static inline int bearerd_epoll_remove(int set, int descriptor) {
  return epoll_ctl(set, EPOLL_CTL_DEL, descriptor, NULL);
}

// As epoll_wait(2), recv(2) and send(2). glibc's are points of cancellation: with several threads that costs two atomic
// operations for each call, and no thread of ours is ever cancelled.

/// Fills at most BEARERD_READY_MAX entries of `into`; the time-out is in milliseconds.
static inline int bearerd_epoll_wait(int set, struct bearerd_ready *into, int timeout) {
  struct epoll_event events[BEARERD_READY_MAX];
  int count = (int)syscall(SYS_epoll_pwait, set, events, BEARERD_READY_MAX, timeout, NULL, 0);
  for (int i = 0; i < count; i++) {
    into[i].events = events[i].events;
    into[i].data = events[i].data.u64;
  }
  return count;
}

static inline ssize_t bearerd_recv(int descriptor, void *into, size_t count, int flags) {
  return syscall(SYS_recvfrom, descriptor, into, count, flags, NULL, NULL);
}
static inline ssize_t bearerd_send(int descriptor, const void *from, size_t count, int flags) {
  return syscall(SYS_sendto, descriptor, from, count, flags, NULL, 0);
}

static const uint32_t bearerd_EPOLLIN = EPOLLIN;
static const uint32_t bearerd_EPOLLOUT = EPOLLOUT;
static const uint32_t bearerd_EPOLLRDHUP = EPOLLRDHUP;
static const uint32_t bearerd_EPOLLHUP = EPOLLHUP;
static const uint32_t bearerd_EPOLLERR = EPOLLERR;
static const uint32_t bearerd_EPOLLET = EPOLLET;

static inline int bearerd_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }
static inline int bearerd_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
static inline int bearerd_timerfd(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

/// Arms `descriptor` for an absolute CLOCK_BOOTTIME instant in nanoseconds; 0 disarms it.
static inline int bearerd_timerfd_arm(int descriptor, uint64_t nanoseconds) {
  struct itimerspec spec = {{0, 0}, {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)}};
  return timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &spec, 0);
}

static inline uint64_t bearerd_boottime(void) {
  struct timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/// Wall clock in milliseconds since 1970.
static inline int64_t bearerd_walltime(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int pipe2(int ends[2], int flags);
long splice(int from, int64_t *from_offset, int to, int64_t *to_offset, size_t count, unsigned flags);

static inline int bearerd_pipe(int *ends) { return pipe2(ends, O_CLOEXEC | O_NONBLOCK); }
/// F_SETPIPE_SZ: the capacity now in force, or -1.
static inline int bearerd_set_pipe_capacity(int pipe, int bytes) { return fcntl(pipe, 1031, bytes); }
/// Between a pipe and a socket, SPLICE_F_MOVE | SPLICE_F_NONBLOCK.
static inline long bearerd_splice(int from, int to, size_t count) { return splice(from, 0, to, 0, count, 1 | 2); }

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags);

static inline int bearerd_accept(int listener) {
  return accept4(listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/// Bytes of a TCP socket that have been written and not yet sent; 0 where there is no such count (tcp(7), SIOCOUTQNSD).
static inline int bearerd_unsent(int descriptor) {
  int count = 0;
  return ioctl(descriptor, SIOCOUTQNSD, &count) == 0 ? count : 0;
}

/// The uid of the peer of a Unix socket, or -1 (SO_PEERCRED, unix(7)).
static inline int64_t bearerd_peer_uid(int descriptor) {
  struct {
    int32_t pid;
    uint32_t uid;
    uint32_t gid;
  } credentials;
  socklen_t length = sizeof credentials;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return -1;
  return (int64_t)credentials.uid;
}

/// Gives the file room for `count` bytes: beyond its end, which stays where it is, or, where the file system cannot,
/// by making it that long. 0, or -1 with errno.
static inline int bearerd_allocate(int descriptor, off_t count) {
  if (syscall(SYS_fallocate, descriptor, FALLOC_FL_KEEP_SIZE, (off_t)0, count) == 0) { return 0; }
  if (errno != EOPNOTSUPP) { return -1; }
  errno = posix_fallocate(descriptor, 0, count);
  return errno == 0 ? 0 : -1;
}

static inline struct flock bearerd_whole_file(short type) {
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Takes an exclusive open-file-description lock on the whole file without waiting: 0, or -1 with errno
/// EAGAIN where somebody else holds it. Closing the last descriptor (or dying) releases it.
static inline int bearerd_ofd_try_lock(int descriptor) {
  struct flock lock = bearerd_whole_file(F_WRLCK);
  return fcntl(descriptor, F_OFD_SETLK, &lock);
}

/// Ends the lock for all descriptors of the open file description.
static inline void bearerd_ofd_unlock(int descriptor) {
  struct flock lock = bearerd_whole_file(F_UNLCK);
  (void)fcntl(descriptor, F_OFD_SETLK, &lock);
}

/// Whether such a lock is held by somebody else: 1 or 0, or -1 with errno.
static inline int bearerd_ofd_is_locked(int descriptor) {
  struct flock lock = bearerd_whole_file(F_WRLCK);
  if (fcntl(descriptor, F_OFD_GETLK, &lock) != 0) return -1;
  return lock.l_type != F_UNLCK;
}

static inline int bearerd_fcntl_dupfd_cloexec(int descriptor, int least) {
  return fcntl(descriptor, F_DUPFD_CLOEXEC, least);
}
static inline int bearerd_set_nonblocking(int descriptor) {
  int flags = fcntl(descriptor, F_GETFL);
  return flags < 0 ? -1 : fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}
static inline int bearerd_set_cloexec(int descriptor) { return fcntl(descriptor, F_SETFD, FD_CLOEXEC); }
static inline int bearerd_not_dumpable(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }
static inline int bearerd_set_name(const char *name) { return prctl(PR_SET_NAME, name, 0, 0, 0); }
static inline void bearerd_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }

/// Raises the soft limit of open descriptors towards `wanted` (never above the hard limit); the limit now in force.
static inline uint64_t bearerd_raise_descriptor_limit(uint64_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

/// Gives memory that was freed back to the kernel, also from the middle of the heap, where free(3) leaves it.
static inline void bearerd_release_freed_memory(void) { malloc_trim(0); }

/// How many CPUs this process may run on (sched_setaffinity(2)); sysconf(3) counts those of the machine. 0: unknown.
static inline int bearerd_affinity_count(void) {
  unsigned long set[128];
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
  int count = 0;
  for (long i = 0; i < bytes / (long)sizeof set[0]; i++) count += __builtin_popcountl(set[i]);
  return count;
}

/// One inotify event, unpacked from struct inotify_event (whose name is a flexible array).
struct bearerd_file_event {
  int watch;
  uint32_t mask;
  /// Inside the buffer that was read; empty where the event is the watched directory's own.
  const char *name;
};

static inline int bearerd_inotify(void) { return inotify_init1(IN_CLOEXEC | IN_NONBLOCK); }

/// Unpacks the event at `offset` of the `count` bytes that one read gave: where the next one begins, or 0 when
/// there is none at `offset`.
static inline size_t bearerd_inotify_next(
    const void *buffer, size_t count, size_t offset, struct bearerd_file_event *into) {
  struct inotify_event head;
  if (offset > count || count - offset < sizeof head) return 0;
  memcpy(&head, (const char *)buffer + offset, sizeof head);
  if (count - offset - sizeof head < head.len) return 0;
  into->watch = head.wd;
  into->mask = head.mask;
  // The kernel pads a name with zeros and ends it with at least one.
  into->name = head.len > 0 ? (const char *)buffer + offset + sizeof head : "";
  return offset + sizeof head + head.len;
}

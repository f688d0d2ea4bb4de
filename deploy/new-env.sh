#!/bin/sh
# Writes deploy/.env with fresh secrets, beside the settings of .env.example. An existing file is kept.
set -eu

cd "$(dirname "$0")"
if [ -e .env ]; then
  echo "deploy/.env is there already; delete it to start anew. Changing the passwords of running stores needs more than that." >&2
  exit 1
fi
random() {
  # Letters and digits: no quoting anywhere, also inside a URL. A letter first, lest it be taken for a number.
  printf 's'
  LC_ALL=C tr -dc 'A-Za-z0-9' </dev/urandom | head -c 32
}
umask 077
temporary=$(mktemp .env.XXXXXX)
trap 'rm -f "$temporary"' EXIT
while IFS= read -r line; do
  case $line in
    [A-Z]*=) printf '%s%s\n' "$line" "$(random)" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <.env.example >"$temporary"
mv "$temporary" .env
echo "deploy/.env is written. The administrator's password is its ADMIN_PASSWORD."

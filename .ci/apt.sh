#!/bin/sh
# Installs the Debian packages that the tests drive for real (.ci/apt-packages.txt and the lists given), as root; else says what is missing.
# Services of those packages are not started: the tests start their own on free loopback ports.
set -eu
cd "$(dirname "$0")/.."
lists=".ci/apt-packages.txt $*"

# shellcheck disable=SC2086 - a list of files
words() { cat $lists | sed 's/#.*//'; }

missing() {
    words | tr -s ' \t' '\n' | while read -r package; do
        [ -n "$package" ] || continue
        state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || printf '%s ' "$package"
    done
}

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "apt: not Debian or Ubuntu. The tests need what these packages hold: $(words | tr '\n' ' ')" >&2
    exit 0
fi
want=$(missing)
[ -n "$want" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "apt: missing, so some tests cannot run. As root: apt-get install -y --no-install-recommends $want" >&2
    exit 0
fi
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
fi
echo "apt: installing $want" >&2
apt-get -qq update
# shellcheck disable=SC2086 - a list of words
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $want >/dev/null

# Before every script. Given: root, nonce.
set -u
umask 077
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ -z "$root" ] || PATH=$root/usr/local/bin:$PATH
export LC_ALL PATH

has() { command -v "$1" >/dev/null 2>&1; }

# say KEY VALUE: one line of the answer.
say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ')"; }

# text KEY: standard input, whatever is in it, as one line of the answer.
text() { printf '%s %s\n' "$1" "$(base64 | tr -d '\n')"; }

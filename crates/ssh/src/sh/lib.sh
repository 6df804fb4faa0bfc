# What steps and the reset share. Lies in the claim's folder. Given: dir, root.
set -u
LC_ALL=C.UTF-8
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ -z "$root" ] || PATH=$root/usr/local/bin:$PATH
HOME=${HOME:-/root}
export LC_ALL PATH HOME
unset SSH_CONNECTION SSH_CLIENT SSH_TTY SSH_AUTH_SOCK 2>/dev/null || :

has() { command -v "$1" >/dev/null 2>&1; }
complain() { printf 'capstan: %s\n' "$*" >&2; }

# Everything that must not be lost when the power goes.
settle() { sync "$@" 2>/dev/null || sync; }

# For tests without rights, in a tree of their own, whose files are.
may_own() { [ -z "$root" ] || [ "$(id -u)" -eq 0 ]; }

# is_remembered PATH
is_remembered() {
	[ -e "$dir/ledger/index" ] || return 1
	while read -r _ path; do
		[ "$path" != "$1" ] || return 0
	done <"$dir/ledger/index"
	return 1
}

# remember PATH: keeps what is there now, before it is changed for the first time. An entry counts once it is in
# the index, so that a death in between is repeated.
remember() {
	is_remembered "$1" && return
	mkdir -p -m 700 "$dir/ledger" || return
	number=0
	[ ! -e "$dir/ledger/index" ] || number=$(wc -l <"$dir/ledger/index")
	number=$((number))
	rm -rf "$dir/ledger/$number"
	if [ -L "$root$1" ] || [ -f "$root$1" ]; then
		cp -pP "$root$1" "$dir/ledger/$number" || return
	elif [ -e "$root$1" ]; then
		complain "$1 is not a file"
		return 1
	fi
	settle
	printf '%s %s\n' "$number" "$1" >>"$dir/ledger/index"
}

# make_folders_later PATH: remembers which folders above a file are not there: somebody will make them.
make_folders_later() {
	at=${1%/*}
	while [ -n "$at" ] && [ ! -d "$root$at" ]; do
		printf '%s\n' "$at" >>"$dir/ledger/folders" || return
		at=${at%/*}
	done
}

# make_folders PATH: the folders above a file.
make_folders() { make_folders_later "$1" && (umask 022 && mkdir -p "$root${1%/*}"); }

# write_file PATH MODE OWNER CONTENT HOW: HOW has "append" and "gzip" in it, or not.
write_file() {
	target=$root$1
	# As cloud-init does: through a link.
	if [ -L "$target" ]; then target=$(readlink -f "$target") || return; fi
	remember "${target#"$root"}" && make_folders "${target#"$root"}" || return
	case $5 in
	*append*)
		# What was there when this step began: a step that is repeated appends once.
		if [ ! -e "$4.before" ]; then
			if [ -e "$target" ]; then cat "$target"; fi >"$4.before.new" || return
			mv "$4.before.new" "$4.before" || return
		fi
		;;
	*) [ -e "$4.before" ] || : >"$4.before" ;;
	esac
	new=$target.capstan-new
	(
		umask 077
		rm -f "$new"
		case $5 in
		*gzip*) cat "$4.before" >"$new" && gzip -dc "$4" >>"$new" ;;
		*) cat "$4.before" "$4" >"$new" ;;
		esac
	) || return
	if may_own; then chown "$3" "$new" || return; fi
	chmod "$2" "$new" && mv -f "$new" "$target"
}

# limit SECONDS COMMAND…
limit() { if has timeout; then timeout "$@"; else shift && "$@"; fi; }

# as_user NAME SCRIPT ARGUMENT…: runs a script with the rights of that user. Root does not work in folders that another user
# may change: a link that the user puts there in time would lead root to any file.
as_user() {
	uid=$(id -u "$1") && gid=$(id -g "$1") || return
	script=$2
	shift 2
	if [ "$(id -u)" -eq 0 ]; then
		set -- setpriv --reuid "$uid" --regid "$gid" --init-groups -- env -i "PATH=$PATH" /bin/sh -c "$script" sh "$@"
	else
		# For tests without rights.
		set -- /bin/sh -c "$script" sh "$@"
	fi
	limit 60 "$@" 9>&-
}

# Scripts for as_user. The first argument is the home folder.
in_home='
umask 077
keys=.ssh/authorized_keys
refuse() { printf "capstan: %s\n" "$1" >&2; exit 1; }
replace() { rm -f "$keys.capstan-new" && cat >"$keys.capstan-new" && chmod "$1" "$keys.capstan-new" && mv -f "$keys.capstan-new" "$keys"; }
cd "$1" || exit
[ ! -L .ssh ] || refuse "$1/.ssh is a symbolic link: no key is written through it"
[ ! -L "$keys" ] || refuse "$1/$keys is a symbolic link: no key is written through it"
'
# What is there: "none -" without a folder, "folder -" without a file, or "file MODE".
find_keys=$in_home'
[ -d .ssh ] || { echo none -; exit; }
[ -e "$keys" ] || { echo folder -; exit; }
[ -f "$keys" ] || refuse "$1/$keys is not a file"
echo file "$(stat -c %a "$keys")"
'
read_keys=$in_home'
[ -e "$keys" ] || exit 0
[ "$(wc -c <"$keys")" -le 1048576 ] || refuse "$1/$keys is larger than 1 MiB"
head -c 1048576 "$keys"
'
write_keys=$in_home'
[ -d .ssh ] || mkdir .ssh || exit
chmod 700 .ssh && replace 600
'
undo_keys=$in_home'
case $2 in
file) replace "$3" ;;
folder) rm -f "$keys" "$keys.capstan-new" ;;
none) rm -f "$keys" "$keys.capstan-new" && { [ ! -d .ssh ] || rmdir .ssh; } ;;
esac
'

# authorize NAME KEYS: adds the lines of a file to the keys that may log in as a user.
authorize() {
	home=$(getent passwd "$1" | cut -d : -f 6)
	if [ -z "$home" ]; then
		complain "user $1 has no home folder"
		return 1
	fi
	# What was there when this step began: a step that is repeated adds its keys once.
	if [ ! -e "$2.before" ]; then
		found=$(as_user "$1" "$find_keys" "$root$home") || return
		as_user "$1" "$read_keys" "$root$home" >"$2.before.new" || return
		saved=$dir/ledger/keys/$1
		if [ ! -e "$saved.found" ]; then
			mkdir -p -m 700 "$dir/ledger/keys" && cp "$2.before.new" "$saved.content" || return
			settle
			printf '%s %s\n' "$found" "$home" >"$saved.found.new" && mv "$saved.found.new" "$saved.found" || return
		fi
		mv "$2.before.new" "$2.before" || return
	fi
	cat "$2.before" "$2" | as_user "$1" "$write_keys" "$root$home"
}

# remember_user NAME: fails if the user is there already.
remember_user() {
	! id -u "$1" >/dev/null 2>&1 || return
	mkdir -p -m 700 "$dir/ledger" && printf '%s\n' "$1" >>"$dir/ledger/users"
}

# list_packages: the names of all that are installed.
list_packages() {
	if has dpkg-query; then
		dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u
	elif has rpm; then
		rpm -qa --qf '%{NAME}\n' | sort -u
	fi
}

# trim_log: what is said is kept, but not without end. Everybody appends, so it can be cut while it grows.
trim_log() {
	[ -e "$dir/log" ] || : >"$dir/log"
	[ "$(wc -c <"$dir/log")" -gt 4194304 ] || return 0
	tail -c 65536 "$dir/log" >"$dir/log.end" && cat "$dir/log.end" >"$dir/log"
	rm -f "$dir/log.end"
}

# hold ROLE: the lock, for as long as this process lives. Whoever comes second goes.
hold() {
	exec 9>>"$dir/lock"
	flock -w 20 9 || exit 0
	printf '%s %s %s\n' "$1" "$$" "$(cut -d ' ' -f 22 "/proc/$$/stat")" >"$dir/holder"
}

# end ROLE WORDS…: the last word, at once or not at all.
end() {
	role=$1
	shift
	printf '%s\n' "$*" >"$dir/$role.result.new"
	settle "$dir/$role.result.new"
	mv "$dir/$role.result.new" "$dir/$role.result"
	settle "$dir"
	exit 0
}

# judge CODE: how a step with commands of others ended. Where the data speaks of a sentinel, that counts.
judge() {
	[ -e "$dir/sentinel" ] || exit "$1"
	sentinel=$(cat "$dir/sentinel")
	[ ! -e "$root$sentinel" ] || exit 0
	[ "$1" -eq 0 ] || exit "$1"
	complain "all commands ended, and $sentinel is not there"
	exit 1
}

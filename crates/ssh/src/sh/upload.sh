# Puts a claim's folder there, whole or not at all, and starts the work in it. `put_all` is made for each claim.
put() {
	case $1 in
	*/*) mkdir -p "$new/${1%/*}" ;;
	esac && base64 -d >"$new/$1" || broken=$1
}
missing
mkdir -p "$claims" && chmod 700 "$claims" || {
	say failed "cannot make $claims"
	return 0
}
exec 7>>"$claims/.lock"
flock -w 30 7
if [ ! -d "$dir" ]; then
	# Under the lock: two management planes may have looked at the same moment.
	for other in "$claims"/*; do
		[ ! -d "$other" ] || {
			say failed "$other is on the host: another machine was started on it"
			return 0
		}
	done
	new=$claims/.new-$claim
	rm -rf "$new"
	mkdir "$new" && mkdir "$new/begun" "$new/ended" "$new/ledger" || {
		say failed "cannot make $new: is the disk full?"
		return 0
	}
	broken=
	put_all
	[ -z "$broken" ] || {
		say failed "cannot write $new/$broken: is the disk full?"
		return 0
	}
	# What may be left by machines of others is not ours to answer for.
	for path in $watched; do
		[ ! -e "$root$path" ] || printf '%s\n' "$path"
	done >"$new/before"
	: >"$new/lock"
	sentinel=$(cat "$new/sentinel" 2>/dev/null)
	[ -z "$sentinel" ] || rm -f "$root$sentinel"
	sync
	mv "$new" "$dir"
	sync
fi
exec 7>&-
[ -e "$dir/run.result" ] || busy || start run
say state started

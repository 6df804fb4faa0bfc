# Carries out the steps of a claim, one after the other. A step that has begun and not ended is repeated only if its
# name says that it may be. Given: the claim's folder, and what stands before every path.
dir=$1
root=$2
. "$dir/lib"
umask 077
hold run
[ ! -e "$dir/run.result" ] || exit 0

# What may be secret is not needed any more, however it ended.
close() {
	rm -rf "$dir/steps" "$dir/files" "$dir/data"
	end run "$@"
}

for step in "$dir"/steps/*; do
	name=${step##*/}
	number=${name%.*}
	[ ! -e "$dir/ended/$number" ] || continue
	if [ -e "$dir/begun/$number" ]; then
		case $name in
		*.once) close interrupted "$number" ;;
		esac
	fi
	trim_log
	# Where its output begins.
	wc -c <"$dir/log" >"$dir/begun/$number"
	settle "$dir/begun/$number"
	(
		umask 022
		cd "$root/" && exec /bin/sh "$step" "$dir" "$root"
	) </dev/null >>"$dir/log" 2>&1 9>&-
	code=$?
	[ "$code" -eq 0 ] || close failed "$number" "$code"
	: >"$dir/ended/$number"
done
close done

# How the bootstrap data of a claim fares. What is not at work and has not ended is started again.
missing
if [ ! -d "$dir" ]; then
	for other in "$claims"/*; do
		[ ! -d "$other" ] || say other "${other##*/}"
	done
	say state absent
	say hostname "$(uname -n)"
	if [ -n "$root" ]; then cloud_init=$root/usr/bin/cloud-init; else cloud_init=$(command -v cloud-init); fi
	[ ! -x "$cloud_init" ] || say cloud-init "$cloud_init"
	return 0
fi
# A reset has begun: this claim is over.
if [ -e "$dir/reset" ]; then
	say state leaving
	return 0
fi
if [ ! -e "$dir/run.result" ] && ! busy; then start run; fi
if [ -e "$dir/run.result" ]; then say state "$(cat "$dir/run.result")"; else say state running; fi
sentinel=$(cat "$dir/sentinel" 2>/dev/null)
[ -z "$sentinel" ] || [ ! -e "$root$sentinel" ] || say sentinel there
for begun in "$dir"/begun/*; do
	[ ! -e "$begun" ] || {
		say begun "${begun##*/}"
		offset=$(cat "$begun")
	}
done
text names <"$dir/names"
[ ! -e "$dir/items" ] || tail -n 500 "$dir/items" | text items
[ ! -e "$dir/log" ] || {
	[ "$(wc -c <"$dir/log")" -le 4194304 ] || (. "$dir/lib" && trim_log)
	tail -c "+$((${offset:-0} + 1))" "$dir/log" | tail -c 16384 | text log
}

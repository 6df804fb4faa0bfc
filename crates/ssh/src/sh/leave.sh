# How the undoing of a claim fares. It is begun if it was not, and begun again if it died.
if [ ! -d "$dir" ]; then
	# What another claim did is not ours to undo, and a host that carries one is not clean.
	state=clean
	for other in "$claims"/*; do
		[ ! -d "$other" ] || {
			say other "${other##*/}"
			state=other
		}
	done
	say state "$state"
	return 0
fi
missing
# Whoever is at work for the claim and does not undo it, stops.
if [ ! -e "$dir/reset" ]; then
	printf '%s' "$reset" | base64 -d >"$dir/reset.new" && [ -s "$dir/reset.new" ] || {
		say failed "cannot write $dir/reset: is the disk full?"
		return 0
	}
	mv "$dir/reset.new" "$dir/reset"
fi
if busy; then
	read -r role pid started <"$dir/holder" 2>/dev/null || role=none
	if [ "$role" = run ] && [ "$(cut -d ' ' -f 22 "/proc/$pid/stat" 2>/dev/null)" = "$started" ]; then
		[ -n "$root" ] || systemctl kill --signal=KILL "capstan-run-$claim.service" 2>/dev/null
		kill -s KILL -- "-$pid" 2>/dev/null || kill -s KILL "$pid" 2>/dev/null
		tries=0
		while busy && [ "$tries" -lt 50 ]; do
			sleep 0.1
			tries=$((tries + 1))
		done
	fi
fi
[ -e "$dir/reset.result" ] || busy || start reset
if [ ! -e "$dir/reset.result" ]; then
	say state running
	return 0
fi
[ ! -e "$dir/reset.agent" ] || text agent <"$dir/reset.agent"
text left <"$dir/reset.left"
state=$(cat "$dir/reset.result")
if [ "$state" = clean ]; then
	rm -rf "$dir"
	[ ! -d "$dir" ] || state=stuck
	rm -f "$claims/.lock"
	rmdir "$claims" 2>/dev/null
fi
say state "$state"

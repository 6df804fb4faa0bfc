# Work that goes on by itself. Given: root, claim.
claims=$root/var/lib/capstan-claims
dir=$claims/$claim

# Whether something works under the claim: it holds the lock as long as it lives, and nothing it starts does.
busy() { ! (flock -s -n 8) 8<"$dir/lock"; }

# start ROLE: runs a script of the claim, apart from this session. A start too many finds the lock taken.
start() {
	unit=capstan-$1-$claim.service
	if [ -z "$root" ] && [ -d /run/systemd/system ] && has systemd-run && {
		systemctl reset-failed "$unit" 2>/dev/null
		systemd-run --quiet --collect --unit="$unit" --property=KillMode=process \
			--property=TasksMax=infinity -- /bin/sh "$dir/$1" "$dir" "$root" 2>"$dir/start.log"
	}; then
		:
	else
		setsid /bin/sh "$dir/$1" "$dir" "$root" </dev/null >/dev/null 2>&1 &
	fi
	# So that whoever asks next sees it at work.
	tries=0
	while ! busy && [ ! -e "$dir/$1.result" ] && [ "$tries" -lt 20 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# missing: names a program without which nothing can be done, and its package.
missing() {
	for pair in flock:util-linux setsid:util-linux base64:coreutils; do
		has "${pair%:*}" || say missing "$pair"
	done
}

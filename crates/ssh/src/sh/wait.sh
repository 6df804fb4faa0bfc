# Waits until the work of a claim has ended, or for a while.
tries=0
while [ -d "$dir" ] && busy && [ "$tries" -lt 200 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
say waited "$tries"

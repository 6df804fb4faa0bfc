# Runs a watch ($2); once it has printed something, which shows that it is under way, does what it is to see ($3), and
# ends it when it has printed a line with $1. Prints what it saw, each line once and without its age.
# Emptied before it starts: what the last one saw is not to be taken for its own.
: > seen
$2 >> seen 2>&1 &
watch=$!
patience=0
until [ -s seen ] || [ $((patience += 1)) -gt 300 ]; do
	# Whoever asked only for what is new gets something new to see.
	kubectl annotate configmap poked times=$patience --overwrite >/dev/null
	sleep 0.1
done
sh -c "$3" >/dev/null
until grep -q "$1" seen || [ $((patience += 1)) -gt 600 ]; do sleep 0.1; done
kill $watch
wait $watch 2>/dev/null
sed 's/  *[0-9][0-9smh]*$//' seen | grep -v poked | sort -u

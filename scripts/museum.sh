#!/usr/bin/env bash
# Lets the tests prove themselves: each patch in testdata/bugs puts one bug back, and the test that it names must be red.
#
#   scripts/museum.sh [patches]    all of testdata/bugs when none are named
#   MUSEUM_FLAGS=…                 more for go test, for instance -race
#
# A patch begins with two lines, which say what it breaks and what finds it:
#
#   Breaks: LG5: only the same token claims again
#   Caught-by: go test -run 'TestJudgeClaim' ./internal/effect
#
# The tree is copied, so nothing here changes. A patch that does not fit or does not build is not caught: it proves nothing.
# At least 95 of 100 must be caught. It asks nothing and reads no standard input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

fail() { printf 'museum: %s\n' "$*" >&2; exit 1; }

patches=("$@")
((${#patches[@]})) || patches=(testdata/bugs/*.patch)
[[ -e ${patches[0]} ]] || fail "there is no patch ${patches[0]}: name files of testdata/bugs"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/tree
mkdir "$copy"
# Also what is not committed yet; what was deleted and not committed is left out.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
	[[ ! -f $file ]] || printf '%s\0' "$file"
done | tar -c --null -T - | tar -x -C "$copy"
export GIT_CEILING_DIRECTORIES=$work # git apply is to see a folder and no repository

# try prints how one patch of the copy fares: caught, or why not. $1 is its path, $2 the package, the rest the test.
try() {
	local patch=$1 package=$2 log=$work/log status=0
	shift 2
	git apply --check "$patch" >"$log" 2>&1 || { echo "does not fit"; return; }
	git apply "$patch"
	if ! go vet "$package" >"$log" 2>&1; then
		echo "does not build"
	else
		# The header's words are those of a command.
		eval "$*" -count=1 -timeout=2m "${MUSEUM_FLAGS:-}" >"$log" 2>&1 || status=$?
		if ((status == 0)); then
			echo "NOT CAUGHT"
		elif grep -q -e '^--- FAIL' -e '^panic: ' -e '^    --- FAIL' -e 'DATA RACE' "$log"; then
			echo "caught"
		else
			echo "no test ran"
		fi
	fi
	git apply -R "$patch"
}

caught=0
all=0
printf '%-42s %-15s %5s  %s\n' bug result time breaks
for patch in "${patches[@]}"; do
	path=$(realpath "$patch")
	breaks=$(sed -n 's/^Breaks: //p;/^---/q' "$patch")
	by=$(sed -n 's/^Caught-by: //p;/^---/q' "$patch")
	[[ -n $breaks && $by == "go test "*" ./"* || $by == "go test "*" ." ]] || fail "$patch: it needs the lines Breaks: and Caught-by: go test -run TEST ./PACKAGE"
	began=$SECONDS
	result=$(cd "$copy" && try "$path" "${by##* }" "$by")
	printf '%-42s %-15s %4ss  %s\n' "$(basename "$patch" .patch)" "$result" "$((SECONDS - began))" "$breaks"
	all=$((all + 1))
	[[ $result != caught ]] || caught=$((caught + 1))
done
printf 'museum: %s of %s bugs are caught\n' "$caught" "$all"
((caught * 100 >= all * 95)) || fail "fewer than 95 of 100: mend the test, or the patch where the code has moved on"

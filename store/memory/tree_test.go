package memory

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A tree is an immutable sorted map.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var kept tree[int]
		var keptWant map[string]int
		now, want := tree[int]{}, map[string]int{}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key"))
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				kept, keptWant = now, maps.Clone(want)
			case 1, 2, 3:
				now = now.remove(key)
				delete(want, key)
			default:
				now = now.put(key, i)
				want[key] = i
			}
			checkTree(t, now, want)
		}
		checkTree(t, kept, keptWant)
	})
}

func checkTree(t *rapid.T, got tree[int], want map[string]int) {
	for i := range 41 {
		key := fmt.Sprint(i)
		value, ok := got.get(key)
		if wanted, there := want[key]; value != wanted || ok != there || got.has(key) != there {
			t.Fatalf("key %s: got %d, %t, want %d, %t", key, value, ok, wanted, there)
		}
	}
	keys := slices.Sorted(maps.Keys(want))
	for _, from := range []string{"", "2", "25", "9", "x"} {
		var after []string
		for key := range got.from(from) {
			after = append(after, key)
		}
		i, _ := slices.BinarySearch(keys, from)
		if !slices.Equal(after, keys[i:]) {
			t.Fatalf("from %q: got %v, want %v", from, after, keys[i:])
		}
	}
	for key := range got.from("") {
		if key != keys[0] {
			t.Fatalf("first key: got %s, want %s", key, keys[0])
		}
		break
	}
}

// depth is about twice the logarithm, even if the keys are added in order.
func TestTreeIsFlat(t *testing.T) {
	t.Parallel()
	var grown tree[int]
	for i := range 10_000 {
		grown = grown.put(fmt.Sprintf("task_%032x", i), i)
	}

	if got := depth(grown.root); got > 60 {
		t.Errorf("the depth of 10,000 keys is %d", got)
	}
}

func depth[V any](n *node[V]) int {
	if n == nil {
		return 0
	}
	return 1 + max(depth(n.left), depth(n.right))
}

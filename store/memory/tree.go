package memory

import "iter"

// tree is a sorted, immutable map with string keys. put and remove return a new tree, which shares
// the unchanged parts. A snapshot is therefore a copy of the root, and a failed transaction drops
// its root. The zero value is empty.
//
// It is a treap whose ranks are hashes of the keys, so its shape depends on its content alone.
type tree[V any] struct{ root *node[V] }

type node[V any] struct {
	key         string
	rank        uint64 // of the key; no rank below is greater
	value       V
	left, right *node[V]
}

// get returns the value of a key and whether the key exists.
func (t tree[V]) get(key string) (V, bool) {
	for n := t.root; n != nil; {
		switch {
		case key == n.key:
			return n.value, true
		case key < n.key:
			n = n.left
		default:
			n = n.right
		}
	}
	var none V
	return none, false
}

func (t tree[V]) has(key string) bool {
	_, ok := t.get(key)
	return ok
}

// put returns the tree with a value for the key, which replaces an existing one.
func (t tree[V]) put(key string, value V) tree[V] {
	return tree[V]{t.root.put(&node[V]{key: key, rank: rank(key), value: value})}
}

// remove returns the tree without the key.
func (t tree[V]) remove(key string) tree[V] { return tree[V]{t.root.remove(key)} }

// from iterates over the keys from key on, in order.
func (t tree[V]) from(key string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { t.root.walk(key, yield) }
}

func (n *node[V]) put(fresh *node[V]) *node[V] {
	switch {
	case n == nil:
		return fresh
	case fresh.key == n.key:
		fresh.left, fresh.right = n.left, n.right
		return fresh
	case fresh.rank > n.rank: // so it is not below either
		fresh.left, fresh.right = n.split(fresh.key)
		return fresh
	}
	changed := *n
	if fresh.key < n.key {
		changed.left = n.left.put(fresh)
	} else {
		changed.right = n.right.put(fresh)
	}
	return &changed
}

// split returns the nodes before and after a key that is not in the tree.
func (n *node[V]) split(key string) (before, after *node[V]) {
	if n == nil {
		return nil, nil
	}
	changed := *n
	if key < n.key {
		before, changed.left = n.left.split(key)
		return before, &changed
	}
	changed.right, after = n.right.split(key)
	return &changed, after
}

func (n *node[V]) remove(key string) *node[V] {
	if n == nil {
		return nil
	}
	if key == n.key {
		return join(n.left, n.right)
	}
	changed := *n
	if key < n.key {
		changed.left = n.left.remove(key)
	} else {
		changed.right = n.right.remove(key)
	}
	return &changed
}

// join joins two trees, where all keys of the first come before all keys of the second.
func join[V any](before, after *node[V]) *node[V] {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.rank > after.rank:
		changed := *before
		changed.right = join(before.right, after)
		return &changed
	}
	changed := *after
	changed.left = join(before, after.left)
	return &changed
}

func (n *node[V]) walk(from string, yield func(string, V) bool) bool {
	if n == nil {
		return true
	}
	if from < n.key && !n.left.walk(from, yield) {
		return false
	}
	if from <= n.key && !yield(n.key, n.value) {
		return false
	}
	return n.right.walk(from, yield)
}

// rank is FNV-1a with its bits mixed, so that keys which differ in their last byte have different
// ranks.
func rank(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

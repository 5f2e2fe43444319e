package perdure_test

import (
	"cmp"
	"maps"
	"slices"
)

// sortedKeys gives the keys of a map an order, so that a seed replays.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// orDefault is what a limit is when it is left at zero.
func orDefault(limit, fallback int) int { return cmp.Or(limit, fallback) }

package cron

import (
	"iter"
	"math/bits"
)

// NumberSet is a set of the numbers 0 to 63: bit n stands for n. The zero value is empty.
type NumberSet uint64

// NumbersOf returns the set of some numbers, each of 0 to 63; others are left out.
func NumbersOf(numbers ...int) NumberSet {
	var set NumberSet
	for _, n := range numbers {
		if n >= 0 && n < 64 {
			set |= 1 << n
		}
	}
	return set
}

// Has reports whether n is in the set.
func (s NumberSet) Has(n int) bool { return n >= 0 && n < 64 && s&(1<<n) != 0 }

// All yields the numbers, the smallest first.
func (s NumberSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(s); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}

// between returns the set of the numbers from low to high.
func between(low, high int) NumberSet { return 1<<(high+1) - 1<<low }

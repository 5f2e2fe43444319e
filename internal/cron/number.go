package cron

import (
	"iter"
	"math/bits"
)

// NumberSet is a set of numbers from 0 to 63: bit n stands for n. The zero value is empty.
type NumberSet uint64

// NumbersOf returns the set of the given numbers from 0 to 63; others are ignored.
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

// All yields the numbers in ascending order.
func (s NumberSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(s); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}

// numbersBetween returns the set of the numbers from low to high.
func numbersBetween(low, high int) NumberSet { return 1<<(high+1) - 1<<low }

package budget

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// unit is how many parts of an Amount are one of its currency.
const unit = 1_000_000

// Amount is how much of a currency, in millionths of it: a millionth of a dollar, of a token, of a call. Sums stop at the
// largest one and never go round. It is never a floating-point number; as text it is a decimal number.
type Amount int64

// Most is the largest amount.
const Most Amount = math.MaxInt64

// Whole is n of a currency.
func Whole(n int64) Amount {
	switch {
	case n > math.MaxInt64/unit:
		return Most
	case n < -math.MaxInt64/unit:
		return -Most
	}
	return Amount(n * unit)
}

// Plus returns the sum.
func (a Amount) Plus(b Amount) Amount {
	switch {
	case b > 0 && a > Most-b:
		return Most
	case b < 0 && a < -Most-b:
		return -Most
	}
	return a + b
}

// Less returns the difference.
func (a Amount) Less(b Amount) Amount { return a.Plus(-max(b, -Most)) }

// times returns a for each million of n, rounded up; a and n are not below zero.
func (a Amount) times(n int64) Amount {
	high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(n, 0)))
	if high >= unit {
		return Most
	}
	q, rest := bits.Div64(high, low, unit)
	if rest > 0 {
		q++
	}
	if q > math.MaxInt64 {
		return Most
	}
	return Amount(q)
}

// String writes the decimal number, without zeros at its end.
func (a Amount) String() string {
	sign := ""
	n := uint64(a)
	if a < 0 {
		sign, n = "-", uint64(-(a+1))+1
	}
	text := sign + strconv.FormatUint(n/unit, 10)
	if part := n % unit; part > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", part), "0")
	}
	return text
}

// Parse reads a decimal number that is not below zero, with at most six digits behind the point. Invalid: it is none.
func Parse(text string) (Amount, error) {
	whole, part, point := strings.Cut(text, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || point && !digits(part) || len(part) > 6 {
		return 0, fmt.Errorf("%w amount %.40q: a decimal number such as 12.50, with at most six digits behind the point", perdure.Invalid, text)
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/unit-1 {
		return 0, fmt.Errorf("%w amount %.40q: it is too large, give at most %d", perdure.Invalid, text, int64(math.MaxInt64/unit-1))
	}
	rest, _ := strconv.ParseInt((part + "000000")[:6], 10, 64) // six digits
	return Amount(n*unit + rest), nil
}

// MarshalText writes the decimal number.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is Parse, also for an amount below zero, which a balance may be.
func (a *Amount) UnmarshalText(text []byte) error {
	digits, below := strings.CutPrefix(string(text), "-")
	parsed, err := Parse(digits)
	if below {
		parsed = -parsed
	}
	if err == nil {
		*a = parsed
	}
	return err
}

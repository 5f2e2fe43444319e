package budget

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// unit is the number of parts in one unit of a currency.
const unit = 1_000_000

// Amount is an amount of a currency in millionths: of a dollar, a token, a call. Sums saturate at
// the largest amount instead of overflowing. An Amount is never a floating-point number; its text
// is a decimal number.
type Amount int64

// MaxAmount is the largest amount.
const MaxAmount Amount = math.MaxInt64

// Whole returns n units of a currency.
func Whole(n int64) Amount {
	switch {
	case n > math.MaxInt64/unit:
		return MaxAmount
	case n < -math.MaxInt64/unit:
		return -MaxAmount
	}
	return Amount(n * unit)
}

// Plus returns the sum.
func (a Amount) Plus(b Amount) Amount {
	switch {
	case b > 0 && a > MaxAmount-b:
		return MaxAmount
	case b < 0 && a < -MaxAmount-b:
		return -MaxAmount
	}
	return a + b
}

// Less returns the difference.
func (a Amount) Less(b Amount) Amount { return a.Plus(-max(b, -MaxAmount)) }

// times returns a for each million of n, rounded up. Neither may be negative.
func (a Amount) times(n int64) Amount {
	high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(n, 0)))
	if high >= unit {
		return MaxAmount
	}
	q, rest := bits.Div64(high, low, unit)
	if rest > 0 {
		q++
	}
	if q > math.MaxInt64 {
		return MaxAmount
	}
	return Amount(q)
}

// String returns the decimal number without trailing zeros.
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

// Parse reads a decimal number that is not negative and has at most six decimals. Any other text is
// Invalid.
func Parse(text string) (Amount, error) {
	whole, part, point := strings.Cut(text, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || point && !digits(part) || len(part) > 6 {
		return 0, fmt.Errorf("%w amount %.40q: use a decimal number such as 12.50, with at most six decimals",
			perdure.Invalid, text)
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/unit-1 {
		return 0, fmt.Errorf("%w amount %.40q: it is too large; use at most %d",
			perdure.Invalid, text, int64(math.MaxInt64/unit-1))
	}
	rest, _ := strconv.ParseInt((part + "000000")[:6], 10, 64) // six digits
	return Amount(n*unit + rest), nil
}

// MarshalText returns the decimal number.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is Parse, but also accepts a negative amount, which a balance can be.
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

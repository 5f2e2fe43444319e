package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// Payments pays for the tools of a capability (the port "Payment authority"). The model sees
// neither a wallet nor a general payment request: the tool decides what is paid for, and to whom.
// Only tools with the hint payment have this port, and they are always at_most_once. Safe for
// concurrent use.
type Payments interface {
	// Pay carries out one order. The attempt is stored before money moves, and its outcome
	// afterwards. The same order of the same call is refused with the outcome of the first one;
	// another order must differ in its parameters.
	//
	// The error is a *[PaymentError], and errors.Is matches its kind: Limit for a limit,
	// UnknownOutcome if money may have moved, Conflict for an order that was already carried out or
	// that first needs an approval. Lost: another attempt owns the task of the call. Unavailable:
	// the store does not answer, and nothing was paid. After the wallet was called, Pay waits for
	// its answer even if ctx ends.
	Pay(ctx context.Context, o PaymentRequest) (PaymentReceipt, error)
}

// PaymentRequest is a payment that a tool requests. Session, call and capability are those of the
// call.
type PaymentRequest struct {
	Host       string // the payee: a host name, without scheme and port
	Operation  string // what is paid for: a word of the capability
	Amount     Amount
	Parameters json.RawMessage // of the operation, a JSON object; empty: {}
}

// PaymentReceipt is a completed payment.
type PaymentReceipt struct {
	ID     string `json:"payment_id"` // the idempotency key of the request to the wallet
	Amount Amount `json:"amount"`
	Text   string `json:"receipt,omitempty"` // as returned by the wallet
}

// Why an order was not carried out.
const (
	PaymentInvalid           = "invalid_request"
	PaymentUndeclared        = "not_a_paying_tool"
	PaymentCapabilityRefused = "capability_not_allowed"
	PaymentHostRefused       = "host_not_allowed"
	PaymentCurrencyRefused   = "currency_not_allowed"
	PaymentOverRequest       = "over_request_cap"
	PaymentOverTurn          = "over_turn_cap"
	PaymentOverDay           = "over_day_cap"
	PaymentNeedsApproval     = "approval_required"
	PaymentDenied            = "denied"                // an authority outside denied it
	PaymentUnasked           = "authority_unavailable" // that authority does not answer
	PaymentReplayed          = "already_paid"
	PaymentInFlight          = "in_flight"
	PaymentRefused           = "refused" // the wallet refused: nothing was paid
	PaymentUnknown           = "unknown" // it is not known whether it was paid
)

// PaymentError says why an order was not carried out.
type PaymentError struct {
	Code    string
	Text    string          // for the model
	Receipt *PaymentReceipt // of the earlier payment; nil: nothing was paid, or it is not known
}

// Error returns the text with its code.
func (e *PaymentError) Error() string { return e.Code + ": " + e.Text }

// Is reports whether target is the error's kind.
func (e *PaymentError) Is(target error) bool {
	switch e.Code {
	case PaymentOverRequest, PaymentOverTurn, PaymentOverDay:
		return target == perdure.Limit
	case PaymentUnknown:
		return target == perdure.UnknownOutcome
	case PaymentDenied:
		return target == perdure.Denied
	case PaymentUnasked:
		return target == perdure.Unavailable
	case PaymentReplayed, PaymentInFlight, PaymentNeedsApproval:
		return target == perdure.Conflict
	}
	return target == perdure.Invalid
}

// Amount is an exact amount of money in millionths of a currency. Its JSON is
// {"value":"1.25","currency":"usd"}, with a decimal string, because a number could be read as a
// float.
type Amount struct {
	Micros   int64  // millionths; positive
	Currency string // lower case, for instance usd
}

// microsPerUnit is the number of millionths in a unit, and maxUnits the largest amount in units.
const (
	microsPerUnit = 1_000_000
	maxUnits      = 1_000_000_000
)

// ParseAmount reads a decimal number of a currency. Invalid: it is not positive or exceeds a
// thousand million, it has more than six decimals, a sign, an exponent or anything else, or the
// currency is not 2 to 16 lower-case letters, digits and _, starting with a letter.
func ParseAmount(value, currency string) (Amount, error) {
	micros, err := parseMicros(value)
	if err == nil && micros == 0 {
		err = errors.New("it must be more than 0")
	}
	if err != nil {
		return Amount{}, fmt.Errorf("%w amount %.40q: %w", perdure.Invalid, value, err)
	}
	a := Amount{Micros: micros, Currency: currency}
	if err := a.Check(); err != nil {
		return Amount{}, err
	}
	return a, nil
}

// Check returns an Invalid error if the amount cannot be paid.
func (a Amount) Check() error {
	if a.Micros < 1 || a.Micros > maxUnits*microsPerUnit {
		return fmt.Errorf("%w amount of %d millionths: it must be more than 0 and at most a thousand million units",
			perdure.Invalid, a.Micros)
	}
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	if c := a.Currency; len(c) < 2 || len(c) > 16 || c[0] < 'a' || c[0] > 'z' || strings.ContainsFunc(c, odd) {
		return fmt.Errorf("%w currency %.40q: use two to sixteen lower-case letters and digits, for instance usd",
			perdure.Invalid, c)
	}
	return nil
}

// Value returns the decimal number without trailing zeros.
func (a Amount) Value() string {
	text := strconv.FormatInt(a.Micros/microsPerUnit, 10)
	if rest := a.Micros % microsPerUnit; rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return text
}

// String returns the amount for people.
func (a Amount) String() string { return a.Value() + " " + a.Currency }

// amountJSON is the JSON form of an amount.
type amountJSON struct {
	Value    string `json:"value"`
	Currency string `json:"currency"`
}

// MarshalJSON writes the amount with a decimal string.
func (a Amount) MarshalJSON() ([]byte, error) {
	return json.Marshal(amountJSON{Value: a.Value(), Currency: a.Currency})
}

// UnmarshalJSON reads what MarshalJSON writes. Its errors are those of ParseAmount; a JSON number
// is refused.
func (a *Amount) UnmarshalJSON(text []byte) error {
	var read amountJSON
	if err := perdure.DecodeJSON(text, &read); err != nil {
		return err
	}
	parsed, err := ParseAmount(read.Value, read.Currency)
	if err == nil {
		*a = parsed
	}
	return err
}

// parseMicros reads digits, and up to six decimals.
func parseMicros(text string) (int64, error) {
	whole, rest, point := strings.Cut(text, ".")
	odd := func(r rune) bool { return r < '0' || r > '9' }
	switch {
	case whole == "" || len(whole) > 10 || point && rest == "" || strings.ContainsFunc(whole+rest, odd):
		return 0, errors.New("use a decimal number, for instance 1.25")
	case len(rest) > 6:
		return 0, errors.New("use at most six decimals")
	}
	micros, err := strconv.ParseInt(whole+rest+strings.Repeat("0", 6-len(rest)), 10, 64)
	if err == nil && micros > maxUnits*microsPerUnit {
		err = errors.New("it must be at most 1000000000")
	}
	return micros, err
}

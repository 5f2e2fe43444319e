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

// Payments pays what the tools of a capability order (the port "Payment authority"; PA1, PA2). The model sees neither a wallet
// nor a request that pays for anything: a tool fixes what it pays for, and whom. Only tools with the hint payment have the
// port, and those are at most once. Safe for concurrent use.
type Payments interface {
	// Pay carries out one order. The attempt is in the store before money moves, and its outcome after. The same order of the
	// same call again is refused with what became of the first; another order differs in its parameters.
	//
	// The error is a *[PaymentError], and errors.Is tells its kind: Limit for a cap, UnknownOutcome when money may have moved,
	// Conflict for an order that was carried out before, or needs a person's approval first. Lost: the call is of an attempt of
	// a task that was overtaken. Unavailable: the store cannot be asked, and nothing was paid. Once the wallet is asked,
	// its answer is waited for, whatever becomes of ctx.
	Pay(ctx context.Context, o PaymentOrder) (PaymentReceipt, error)
}

// PaymentOrder is what a tool wants paid. Session, call and capability are those of the call.
type PaymentOrder struct {
	Host       string          // who is paid: a host name, without scheme and port
	Operation  string          // for what: a word of the capability
	Amount     Amount          //
	Parameters json.RawMessage // of the operation, an object; empty: {}
}

// PaymentReceipt is a payment that was made.
type PaymentReceipt struct {
	ID     string `json:"payment_id"` // the idempotency key that the wallet was asked with
	Amount Amount `json:"amount"`
	Text   string `json:"receipt,omitempty"` // as the wallet gave it
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
	PaymentReplayed          = "already_paid"
	PaymentInFlight          = "in_flight"
	PaymentRefused           = "refused" // the wallet said no: nothing was paid
	PaymentUnknown           = "unknown" // nobody knows whether it was paid
)

// PaymentError says why an order was not carried out.
type PaymentError struct {
	Code    string
	Text    string          // fit for the model
	Receipt *PaymentReceipt // of what was paid before; nil: nothing was, or nobody knows
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
	case PaymentReplayed, PaymentInFlight, PaymentNeedsApproval:
		return target == perdure.Conflict
	}
	return target == perdure.Invalid
}

// Amount is money, exactly: millionths of a currency. Its JSON is {"value":"1.25","currency":"usd"}, with a decimal string,
// since a number would be read as a float by somebody.
type Amount struct {
	Micros   int64  // millionths; over 0
	Currency string // in lower case, for instance usd
}

// microsPerUnit is how many millionths a unit has, and maxUnits how many units an amount has at most.
const (
	microsPerUnit = 1_000_000
	maxUnits      = 1_000_000_000
)

// ParseAmount reads a decimal number of a currency. Invalid: it is not over 0 or over a thousand million, has more than six
// digits after the point, a sign, an exponent or anything else, or the currency is not two to sixteen letters, digits
// and _, in lower case and a letter first.
func ParseAmount(value, currency string) (Amount, error) {
	micros, err := parseMicros(value)
	if err == nil && micros == 0 {
		err = errors.New("write more than 0")
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

// Check says whether an amount can be paid. Invalid: what is wrong with it.
func (a Amount) Check() error {
	if a.Micros < 1 || a.Micros > maxUnits*microsPerUnit {
		return fmt.Errorf("%w amount of %d millionths: it is over 0 and at most a thousand million units", perdure.Invalid, a.Micros)
	}
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	if c := a.Currency; len(c) < 2 || len(c) > 16 || c[0] < 'a' || c[0] > 'z' || strings.ContainsFunc(c, odd) {
		return fmt.Errorf("%w currency %.40q: write two to sixteen letters and digits, in lower case, for instance usd", perdure.Invalid, c)
	}
	return nil
}

// Value returns the decimal number, without zeros at its end.
func (a Amount) Value() string {
	text := strconv.FormatInt(a.Micros/microsPerUnit, 10)
	if rest := a.Micros % microsPerUnit; rest != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return text
}

// String is the amount for people.
func (a Amount) String() string { return a.Value() + " " + a.Currency }

// amountJSON is an amount on the wire.
type amountJSON struct {
	Value    string `json:"value"`
	Currency string `json:"currency"`
}

// MarshalJSON writes the amount with a decimal string.
func (a Amount) MarshalJSON() ([]byte, error) {
	return json.Marshal(amountJSON{Value: a.Value(), Currency: a.Currency})
}

// UnmarshalJSON reads what MarshalJSON wrote. Invalid: what ParseAmount says; a number is no string.
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

// parseMicros reads digits, and up to six more after a point.
func parseMicros(text string) (int64, error) {
	whole, rest, point := strings.Cut(text, ".")
	odd := func(r rune) bool { return r < '0' || r > '9' }
	switch {
	case whole == "" || len(whole) > 10 || point && rest == "" || strings.ContainsFunc(whole+rest, odd):
		return 0, errors.New("write a decimal number, for instance 1.25")
	case len(rest) > 6:
		return 0, errors.New("write at most six digits after the point")
	}
	micros, err := strconv.ParseInt(whole+rest+strings.Repeat("0", 6-len(rest)), 10, 64)
	if err == nil && micros > maxUnits*microsPerUnit {
		err = errors.New("write at most 1000000000")
	}
	return micros, err
}

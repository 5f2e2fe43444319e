package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// The limits of a number in canonical form.
const (
	maxCanonicalExponent = 400     // decimal exponent up to which a number is written out in digits
	maxExponentDigits    = 100     // digits of an exponent; no real number has more
	maxGrowth            = 1 << 20 // bytes by which all numbers of a text together may grow
)

// Canonical rewrites one JSON value so that equal values have equal bytes: keys are sorted by
// bytes, there is no white space, numbers have their exact shortest decimal form (1, 1.0 and 1e0
// are the same, -0 is 0), and strings keep their contents. Empty input counts as {}, as it does for
// the arguments of a call.
//
// The error is a *[Fault]. The reasons are text that is not JSON or is followed by more text, a
// duplicate key, half of a surrogate pair or bytes that are not UTF-8 (two different texts could
// otherwise get the same bytes), and more than 1,000 levels. Time and memory are proportional to
// the length of the text.
func Canonical(text json.RawMessage) ([]byte, error) {
	if len(bytes.Trim(text, space)) == 0 {
		return []byte("{}"), nil
	}
	s := scanner{text: string(text), orders: map[int]memberOrder{}}
	if err := s.checkDocument(target{}); err != nil {
		return nil, err
	}
	w := canonicalWriter{text: s.text, orders: s.orders}
	w.out.Grow(len(text))
	if _, err := w.value(0); err != nil {
		return nil, &Fault{Text: err.Error()}
	}
	return w.out.Bytes(), nil
}

// memberOrder is the sequence of an object's members by key, and the position after the object.
type memberOrder struct {
	members []member
	end     int
}

// canonicalWriter writes a text that a scanner has accepted. Its methods take the position at which
// a value begins and return the position after it.
type canonicalWriter struct {
	text   string
	orders map[int]memberOrder // by the position of the object; only objects whose keys are not sorted
	out    bytes.Buffer
	grown  int // bytes by which numbers have grown so far
}

func (w *canonicalWriter) value(at int) (int, error) {
	at = pastSpace(w.text, at)
	switch w.text[at] {
	case '{':
		return w.object(at)
	case '[':
		return w.list(at)
	case '"':
		return w.string(at)
	case 't', 'n':
		w.out.WriteString(w.text[at : at+4])
		return at + 4, nil
	case 'f':
		w.out.WriteString("false")
		return at + 5, nil
	}
	return w.number(at)
}

func (w *canonicalWriter) object(at int) (int, error) {
	sorted, ok := w.orders[at]
	if !ok {
		return w.list(at)
	}
	for i, m := range sorted.members {
		w.out.WriteByte("{,"[min(i, 1)])
		if _, err := w.string(m.start); err != nil {
			return 0, err
		}
		w.out.WriteByte(':')
		if _, err := w.value(m.value); err != nil {
			return 0, err
		}
	}
	w.out.WriteByte('}')
	return sorted.end, nil
}

// list writes an array, or an object whose keys are already sorted: values and separators in turn.
func (w *canonicalWriter) list(at int) (int, error) {
	for {
		w.out.WriteByte(w.text[at])
		at = pastSpace(w.text, at+1)
		if !strings.ContainsRune("]},:", rune(w.text[at])) {
			var err error
			if at, err = w.value(at); err != nil {
				return 0, err
			}
			at = pastSpace(w.text, at)
		}
		if end := w.text[at]; end == ']' || end == '}' {
			w.out.WriteByte(end)
			return at + 1, nil
		}
	}
}

// string writes a string with the same escapes as encoding/json. Fingerprints depend on them.
func (w *canonicalWriter) string(at int) (int, error) {
	end := at + 1
	for ; w.text[end] != '"'; end++ {
		if w.text[end] == '\\' {
			end++
		}
	}
	end++
	token := w.text[at:end]
	if !strings.Contains(token, `\`) && !strings.Contains(token, "\u2028") && !strings.Contains(token, "\u2029") {
		w.out.WriteString(token)
		return end, nil
	}
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(unquoted(token)); err != nil {
		return 0, err
	}
	w.out.Truncate(w.out.Len() - 1) // Encode ends with a newline
	return end, nil
}

func (w *canonicalWriter) number(at int) (int, error) {
	end := at
	for end < len(w.text) && strings.IndexByte("+-.0123456789eE", w.text[end]) >= 0 {
		end++
	}
	text, err := canonicalNumber(w.text[at:end])
	if err != nil {
		return 0, err
	}
	if w.grown += max(0, len(text)-(end-at)); w.grown > maxGrowth {
		return 0, fmt.Errorf("its numbers grow by more than %d digits when they are written out", maxGrowth)
	}
	w.out.WriteString(text)
	return end, nil
}

// canonicalNumber writes a JSON number exactly, as an integer or as digits with an exponent.
func canonicalNumber(s string) (string, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if len(exponent) > maxExponentDigits {
		return "", fmt.Errorf("an exponent has more than %d digits", maxExponentDigits)
	}
	exp := new(big.Int)
	if exponent != "" {
		if _, ok := exp.SetString(strings.TrimPrefix(exponent, "+"), 10); !ok {
			return "", fmt.Errorf("number %q", s)
		}
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exp.Sub(exp, big.NewInt(int64(len(fraction))))
	trimmed := strings.TrimRight(digits, "0")
	exp.Add(exp, big.NewInt(int64(len(digits)-len(trimmed))))
	if trimmed == "" {
		return "0", nil
	}
	text := trimmed
	switch {
	case exp.Sign() == 0:
	case exp.Sign() > 0 && exp.IsInt64() && exp.Int64() <= maxCanonicalExponent:
		text += strings.Repeat("0", int(exp.Int64()))
	default:
		text += "e" + exp.String()
	}
	if negative {
		text = "-" + text
	}
	return text, nil
}

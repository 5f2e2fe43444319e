package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
)

// maxCanonicalExponent bounds the digits that a number may unfold to.
const maxCanonicalExponent = 400

// CanonicalJSON rewrites one JSON value so that equal values have equal bytes: keys sorted by bytes, no
// white space, numbers in exact shortest decimal (1, 1.0 and 1e0 agree, -0 is 0), strings as they are
// (LG13). Empty input counts as {}. Duplicate keys, trailing text and malformed JSON are Invalid.
func CanonicalJSON(text json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}"), nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(dec, &out, 0); err != nil {
		return nil, fmt.Errorf("%w JSON: %w", Invalid, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w JSON: text after the value", Invalid)
	}
	return out.Bytes(), nil
}

func canonicalValue(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > 1000 {
		return fmt.Errorf("nested deeper than 1000")
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return canonicalObject(dec, out, depth)
		}
		return canonicalArray(dec, out, depth)
	case json.Number:
		s, err := canonicalNumber(v.String())
		if err != nil {
			return err
		}
		out.WriteString(s)
	case string:
		return writeString(out, v)
	case bool:
		fmt.Fprint(out, v)
	default:
		out.WriteString("null")
	}
	return nil
}

func canonicalObject(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	fields := map[string][]byte{}
	var keys []string
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if _, twice := fields[key]; twice {
			return fmt.Errorf("duplicate key %q", key)
		}
		var value bytes.Buffer
		if err := canonicalValue(dec, &value, depth+1); err != nil {
			return err
		}
		fields[key] = value.Bytes()
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeString(out, key); err != nil {
			return err
		}
		out.WriteByte(':')
		out.Write(fields[key])
	}
	out.WriteByte('}')
	_, err := dec.Token()
	return err
}

func canonicalArray(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	out.WriteByte('[')
	for i := 0; dec.More(); i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := canonicalValue(dec, out, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	_, err := dec.Token()
	return err
}

// canonicalNumber writes a JSON number as a plain integer or as digits and an exponent, exactly.
func canonicalNumber(s string) (string, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
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

func writeString(out *bytes.Buffer, s string) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // Encode ends with a newline
	return nil
}

// Package strictjson reads JSON from outside so that every reader of a text sees the same value.
//
// encoding/json reads leniently: it accepts names in any case and the last of two equal keys, and
// puts a replacement character where the input has no valid one. Where two parts of a program read
// one text, one of them may then check something that the other does not see. A scanner therefore
// checks the whole text before anything is decoded, beside the Go type that the value will be
// decoded into. Only a text that has one meaning is passed to encoding/json.
//
// The same scanner gives values one form ([Canonical]): two texts with equal bytes have equal
// values.
//
// The package imports only the standard library. Its errors have no kind of the root; the root
// gives them one.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Decode decodes one JSON value into the variable that into points to. A *[Fault] says what is
// wrong with the text and where. The reasons are:
//
//   - empty text, and text that is not JSON, ends too early or is followed by more text
//   - bytes that are not UTF-8, a byte order mark, half of a surrogate pair
//   - a duplicate key, at any level
//   - a field that is unknown or spelled in another case, and a value of the wrong type
//   - a number that does not fit, is longer than 1,000 characters or has an exponent beyond 1,000
//   - more than 1,000 levels
//
// An integer field accepts no fraction and no exponent. In an any, numbers are json.Number. null
// leaves the variable unchanged, as in encoding/json. The character NUL is accepted, because files
// may contain it and JSON can carry it; names and paths have their own checks. A type with its own
// UnmarshalJSON or UnmarshalText decodes its value itself, after the same checks of keys, texts and
// numbers.
//
// Any other error means that into is not a non-nil pointer, or that a type's own decoder panicked.
// After an error the variable may be partly filled.
func Decode(text []byte, into any) error { return decode(text, into, true) }

// DecodeKnown is Decode for formats that others define, such as a provider's answer. Unknown fields
// are checked and skipped. A field in another spelling counts as unknown.
func DecodeKnown(text []byte, into any) error { return decode(text, into, false) }

func decode(text []byte, into any, strict bool) (err error) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("decode JSON into %T: want a pointer that is not nil", into)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode JSON into %T: its decoder panicked: %v", into, p)
		}
	}()
	to := target{t: v.Type(), v: v}
	s := scanner{text: string(text), bounded: true, strict: strict}
	if err := s.checkDocument(to); err != nil {
		return err
	}
	if len(s.skipped) > 0 {
		text = slices.Clone(text)
	}
	for _, span := range s.skipped {
		copy(text[span.start:span.end], bytes.Repeat([]byte(" "), span.end-span.start))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if strict {
		dec.DisallowUnknownFields()
	}
	fault := dec.Decode(into)
	if fault == nil {
		return nil
	}
	blamed := scanner{text: s.text, strict: strict, tryDecoders: true}
	if err := blamed.checkDocument(to); err != nil {
		return err
	}
	return &Fault{Text: faultText(fault)}
}

package redact

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxWritten limits, in bytes, how much of a value is encoded before it is redacted. The rest is
// left out.
const maxWritten = 1 << 20

// encoder encodes a value as JSON. Unlike encoding/json it accepts keys of any type, NaN and
// infinities, errors, and values that contain themselves.
type encoder struct {
	out      *writer
	maxDepth int
}

// written returns a value as JSON, or its text if it is one.
func written(v any, maxDepth int) (string, error) {
	if err, ok := v.(error); ok {
		return err.Error(), nil
	}
	at := reflect.ValueOf(v)
	if text, ok := plainText(at); ok && !encodesItself(at) {
		return text, nil
	}
	if raw, ok := v.(json.RawMessage); ok {
		return string(raw), nil
	}
	e := encoder{out: &writer{limit: maxWritten}, maxDepth: maxDepth}
	err := e.value(at, 0)
	return e.out.String(), err
}

// plainText returns the text of a value of string or byte-slice type.
func plainText(v reflect.Value) (string, bool) {
	switch {
	case v.Kind() == reflect.String:
		return v.String(), true
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return string(v.Bytes()), true
	case v.Kind() == reflect.Array && v.Type().Elem().Kind() == reflect.Uint8:
		var out strings.Builder
		for i := range v.Len() {
			out.WriteByte(byte(v.Index(i).Uint()))
		}
		return out.String(), true
	}
	return "", false
}

func encodesItself(v reflect.Value) bool {
	if !v.IsValid() || !v.CanInterface() {
		return false
	}
	switch v.Interface().(type) {
	case error, json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

// itself encodes a value with its own method.
func (e *encoder) itself(v reflect.Value) error {
	switch v := v.Interface().(type) {
	case error:
		quote(e.out, v.Error())
	case json.RawMessage:
		e.raw(string(v))
	case json.Marshaler:
		text, err := v.MarshalJSON()
		if err != nil {
			return err
		}
		e.raw(string(text))
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err
		}
		quote(e.out, string(text))
	}
	return nil
}

// raw writes JSON, or text that is not JSON as a string.
func (e *encoder) raw(text string) {
	if json.Valid([]byte(text)) {
		e.out.WriteString(text)
		return
	}
	quote(e.out, text)
}

func (e *encoder) value(v reflect.Value, depth int) error {
	for links := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; links++ {
		if v.Kind() == reflect.Pointer && !v.IsNil() && encodesItself(v) {
			return e.itself(v)
		}
		if links > e.maxDepth {
			quote(e.out, Mark)
			return nil
		}
		v = v.Elem()
	}
	text, isText := plainText(v)
	switch kind := v.Kind(); {
	case kind == reflect.Invalid:
		e.out.WriteString("null")
	case encodesItself(v):
		return e.itself(v)
	case isText:
		quote(e.out, text)
	case kind == reflect.Map || kind == reflect.Slice || kind == reflect.Array || kind == reflect.Struct:
		if depth > e.maxDepth {
			quote(e.out, Mark)
			return nil
		}
		return e.holder(v, depth)
	default:
		return e.scalar(v)
	}
	return nil
}

func (e *encoder) scalar(v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Bool:
		e.out.WriteString(strconv.FormatBool(v.Bool()))
	case v.CanInt():
		e.out.WriteString(strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		e.out.WriteString(strconv.FormatUint(v.Uint(), 10))
	case v.CanFloat() || v.CanComplex():
		text := fmt.Sprint(v)
		if !json.Valid([]byte(text)) {
			text = strconv.Quote(text)
		}
		e.out.WriteString(text)
	default:
		return fmt.Errorf("there is no text for a %s", v.Kind())
	}
	return nil
}

// entry is a member of an object.
type entry struct {
	key   string
	value reflect.Value
}

// holder encodes a value that contains other values.
func (e *encoder) holder(v reflect.Value, depth int) error {
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		return e.items(v, depth)
	}
	var all []entry
	if v.Kind() == reflect.Map {
		for at := v.MapRange(); at.Next(); {
			all = append(all, entry{e.keyText(at.Key()), at.Value()})
		}
		slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	} else {
		all = fields(v)
	}
	e.out.WriteByte('{')
	for i, m := range all {
		if e.out.full() {
			break
		}
		if i > 0 {
			e.out.WriteByte(',')
		}
		quote(e.out, m.key)
		e.out.WriteByte(':')
		if err := e.value(m.value, depth+1); err != nil {
			return err
		}
	}
	e.out.WriteByte('}')
	return nil
}

func (e *encoder) items(v reflect.Value, depth int) error {
	e.out.WriteByte('[')
	for i := range v.Len() {
		if e.out.full() {
			break
		}
		if i > 0 {
			e.out.WriteByte(',')
		}
		if err := e.value(v.Index(i), depth+1); err != nil {
			return err
		}
	}
	e.out.WriteByte(']')
	return nil
}

// keyText returns the text of a key of any type.
func (e *encoder) keyText(v reflect.Value) string {
	for links := 0; links <= e.maxDepth && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) &&
		!v.IsNil(); links++ {
		if text, ok := v.Interface().(fmt.Stringer); ok {
			return text.String()
		}
		v = v.Elem()
	}
	if v.CanInterface() {
		switch key := v.Interface().(type) {
		case encoding.TextMarshaler:
			if text, err := key.MarshalText(); err == nil {
				return string(text)
			}
		case fmt.Stringer:
			return key.String()
		case error:
			return key.Error()
		}
	}
	if text, ok := plainText(v); ok {
		return text
	}
	return fmt.Sprint(v)
}

// fields returns the fields of a struct under their JSON names.
func fields(v reflect.Value) []entry {
	var all []entry
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" && options == "" || f.Anonymous && name == "" && isStruct(f.Type) {
			continue
		}
		value, err := v.FieldByIndexErr(f.Index)
		if err != nil || strings.Contains(options, "omit") && value.IsZero() {
			continue
		}
		all = append(all, entry{cmp.Or(name, f.Name), value})
	}
	return all
}

func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
)

// maxPointers bounds the pointers that lead to a value, because a pointer type can refer to itself.
const maxPointers = 100

// target is the Go variable that a JSON value will be decoded into. It predicts what encoding/json
// will do, so that a fault is found together with its place before anything is decoded. The zero
// value accepts any JSON value.
type target struct {
	t             reflect.Type  // nil: anything
	v             reflect.Value // its present value; may be absent
	decodesItself bool          // the type has its own decoder
	quoted        bool          // a field with the option string
}

// dereferenced follows pointers, and interfaces that contain a pointer.
func (to target) dereferenced() (target, *openFault) {
	for range maxPointers {
		switch {
		case to.t == nil:
			return target{}, nil
		case hasOwnDecoder(to.t):
			to.decodesItself, to.v = true, reflect.Value{}
			return to, nil
		case to.t.Kind() == reflect.Pointer:
			to.t = to.t.Elem()
			if to.v.IsValid() {
				to.v = to.v.Elem() // absent for nil
			}
		case to.t.Kind() == reflect.Interface && to.v.IsValid() && to.v.Elem().Kind() == reflect.Pointer && !to.v.Elem().IsNil():
			to.v = to.v.Elem()
			to.t = to.v.Type()
		case to.t.Kind() == reflect.Interface && to.t.NumMethod() == 0:
			return target{}, nil
		default:
			return to, nil
		}
	}
	return target{}, faultf("no value fits the endless pointer type %s", to.t)
}

// hasOwnDecoder reports whether a type has its own decoder. encoding/json also finds the methods of
// the pointer type, because every variable that it fills is addressable.
func hasOwnDecoder(t reflect.Type) bool {
	if kind := t.Kind(); kind == reflect.Interface || t.PkgPath() == "" && kind != reflect.Struct && kind != reflect.Pointer {
		return false // an unnamed type of this kind has no methods
	}
	for _, own := range []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()} {
		if t.Implements(own) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return false
}

// check checks whether a value of JSON type got fits. token is its text, if the value is a scalar.
func (to target) check(got, token string) *openFault {
	if to.t == nil || to.decodesItself || got == "null" {
		return nil
	}
	if to.quoted {
		if got != "string" {
			return faultf("got %s, want string", got)
		}
		return nil
	}
	want := to.t.String()
	switch kind := to.t.Kind(); kind {
	case reflect.Struct, reflect.Map:
		want = "object"
	case reflect.Slice, reflect.Array:
		want = "array"
		if kind == reflect.Slice && to.t.Elem().Kind() == reflect.Uint8 {
			want = "string" // in base64
			if got == "array" {
				return nil
			}
		}
	case reflect.Bool:
		want = "boolean"
	case reflect.String:
		want = "string"
		if to.t == reflect.TypeFor[json.Number]() {
			want = "number" // a string with a number in it is not accepted
		}
	default:
		if isNumeric(kind) {
			return to.checkNumber(got, token)
		}
	}
	if got != want {
		return faultf("got %s, want %s", got, want)
	}
	return nil
}

func isNumeric(kind reflect.Kind) bool { return reflect.Int <= kind && kind <= reflect.Float64 }

// checkNumber checks whether a value fits a numeric Go type.
func (to target) checkNumber(got, token string) *openFault {
	var err error
	want := "integer"
	switch kind, bits := to.t.Kind(), to.t.Bits(); {
	case got != "number":
	case kind <= reflect.Int64:
		_, err = strconv.ParseInt(token, 10, bits)
	case kind <= reflect.Uintptr:
		_, err = strconv.ParseUint(token, 10, bits)
	default:
		_, err = strconv.ParseFloat(token, bits)
	}
	if to.t.Kind() >= reflect.Float32 {
		want = "number"
	}
	switch {
	case got != "number":
		return faultf("got %s, want %s", got, want)
	case err != nil:
		return faultf("got number %s, want %s", clipped(token, 40), to.t.Kind())
	}
	return nil
}

// checkKey checks a key of a map. Integer keys must have their normal form; otherwise two different
// keys could become the same one.
func (to target) checkKey(key string) *openFault {
	if to.t == nil || to.decodesItself || to.t.Kind() != reflect.Map {
		return nil
	}
	t := to.t.Key()
	if hasOwnDecoder(t) || t.Kind() == reflect.String {
		return nil
	}
	plain := ""
	switch kind := t.Kind(); {
	case reflect.Int <= kind && kind <= reflect.Int64:
		n, _ := strconv.ParseInt(key, 10, t.Bits())
		plain = strconv.FormatInt(n, 10)
	case reflect.Uint <= kind && kind <= reflect.Uintptr:
		n, _ := strconv.ParseUint(key, 10, t.Bits())
		plain = strconv.FormatUint(n, 10)
	}
	if key != plain {
		return faultf("the key must be a number in plain digits (%s)", t.Kind())
	}
	return nil
}

// element is the variable for the value of a map key.
func (to target) element() target {
	if to.t == nil || to.decodesItself || to.t.Kind() != reflect.Map {
		return target{}
	}
	return target{t: to.t.Elem()}
}

// item is the variable for an array item. A Go array that is too short would silently lose items.
func (to target) item(i int) (target, *openFault) {
	if to.t == nil || to.decodesItself {
		return target{}, nil
	}
	if to.t.Kind() == reflect.Array && i >= to.t.Len() {
		return target{}, faultf("at most %d items are allowed", to.t.Len())
	}
	child := target{t: to.t.Elem()}
	if to.v.IsValid() && i < to.v.Len() {
		child.v = to.v.Index(i)
	}
	return child, nil
}

// tryDecode decodes a value with its own decoder, or as base64, and returns the fault.
func (to target) tryDecode(token string) *openFault {
	if to.t == nil || !to.decodesItself && to.t.Kind() != reflect.Slice {
		return nil
	}
	if err := json.Unmarshal([]byte(token), reflect.New(to.t).Interface()); err != nil {
		return &openFault{text: faultText(err)}
	}
	return nil
}

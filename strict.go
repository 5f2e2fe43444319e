package perdure

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// DecodeJSON decodes one JSON value from outside into the variable that into points to. It is
// strict, so that all components that read the same text see the same value.
//
// A *[JSONError], which is Invalid, says what is wrong and where. The reasons are:
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
func DecodeJSON(text []byte, into any) error {
	return decodeJSON(text, into, true)
}

// DecodeKnownJSON is DecodeJSON for formats that others define, such as a provider's answer.
// UnknownCalls fields are checked and skipped. A field in another spelling counts as unknown.
func DecodeKnownJSON(text []byte, into any) error {
	return decodeJSON(text, into, false)
}

// JSONError says what is wrong with JSON from outside. It is Invalid.
type JSONError struct {
	Pointer string // a JSON pointer (RFC 6901) to the place, shortened if it is long; empty: the whole text
	Text    string // one line
}

// Error returns the place and the fault on one line.
func (e *JSONError) Error() string {
	if e.Pointer == "" {
		return "invalid JSON: " + e.Text
	}
	place := strconv.Quote(e.Pointer)
	return "invalid JSON at " + place[1:len(place)-1] + ": " + e.Text
}

// Unwrap returns Invalid.
func (e *JSONError) Unwrap() error { return Invalid }

func decodeJSON(text []byte, into any, strict bool) (err error) {
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
	return &JSONError{Text: faultText(fault)}
}

// faultText shortens the error of a decoder to one line.
func faultText(err error) string {
	line := strconv.Quote(strings.TrimPrefix(err.Error(), "json: "))
	line = strings.ReplaceAll(line[1:len(line)-1], `\"`, `"`)
	return clipped(line, 300)
}

// Limits of a name and of a pointer in a fault, in bytes.
const (
	maxNameBytes    = 100
	maxPointerBytes = 300
)

func clipped(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// jsonFault is a fault with the part of its place that is known so far.
type jsonFault struct {
	text  string
	path  []string // innermost first
	whole bool     // the fault is in the text as a whole, not at a place in it
}

// at adds the member or item that contains the fault.
func (f *jsonFault) at(name string) *jsonFault {
	if !f.whole {
		f.path = append(f.path, name)
	}
	return f
}

func faultf(format string, args ...any) *jsonFault {
	return &jsonFault{text: fmt.Sprintf(format, args...)}
}

// asError returns the fault as an error.
func (f *jsonFault) asError() error {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, name := range slices.Backward(f.path) {
		pointer.WriteString("/" + escape.Replace(clipped(name, maxNameBytes)))
		if pointer.Len() > maxPointerBytes {
			break
		}
	}
	return &JSONError{Pointer: clipped(pointer.String(), maxPointerBytes), Text: f.text}
}

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
func (to target) dereferenced() (target, *jsonFault) {
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
func (to target) check(got, token string) *jsonFault {
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
func (to target) checkNumber(got, token string) *jsonFault {
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
func (to target) checkKey(key string) *jsonFault {
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
func (to target) item(i int) (target, *jsonFault) {
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
func (to target) tryDecode(token string) *jsonFault {
	if to.t == nil || !to.decodesItself && to.t.Kind() != reflect.Slice {
		return nil
	}
	if err := json.Unmarshal([]byte(token), reflect.New(to.t).Interface()); err != nil {
		return &jsonFault{text: faultText(err)}
	}
	return nil
}

// shape is the fields of a struct by their JSON names.
type shape map[string]field

// shapes caches the shape of each type that was decoded into. It is global because a type's shape
// never changes, and computing it takes ten times as long as decoding a small text.
var shapes sync.Map // of reflect.Type to shape

// field is a field of a struct, possibly from an embedded one.
type field struct {
	t      reflect.Type
	index  []int // as in reflect.Value.FieldByIndex
	named  bool  // it has a name in its tag
	quoted bool  // it has the option string
}

// shapeOf returns the fields of the struct that an object is decoded into.
func shapeOf(to target) (shape, bool) {
	if to.t == nil || to.decodesItself || to.t.Kind() != reflect.Struct {
		return nil, false
	}
	if found, ok := shapes.Load(to.t); ok {
		return found.(shape), true
	}
	found := newShape(to.t)
	shapes.Store(to.t, found)
	return found, true
}

// field returns the variable for the value of a key, or says that the key is skipped.
func (s *scanner) field(to target, fields shape, key string) (child target, skip bool, fault *jsonFault) {
	f, ok := fields[key]
	if !ok && !s.strict {
		return target{}, true, nil
	}
	if !ok {
		for name := range fields {
			if strings.EqualFold(name, key) {
				return target{}, false, faultf("unknown field; it is spelled %s", strconv.Quote(name))
			}
		}
		return target{}, false, faultf("unknown field")
	}
	child = target{t: f.t, v: to.v, quoted: f.quoted}
	for _, i := range f.index {
		if child.v.Kind() == reflect.Pointer {
			child.v = child.v.Elem() // absent for nil
		}
		if child.v.IsValid() {
			child.v = child.v.Field(i)
		}
	}
	return child, false, nil
}

// embedded is an embedded struct, whose fields count as fields of the outer one.
type embedded struct {
	t     reflect.Type
	index []int
	twice bool // it occurs twice on its level, so its fields hide each other
}

// newShape finds the fields of a struct by the rules of encoding/json: of several fields with the
// same name, the least deeply embedded ones count, of these the ones with a tag, and none if
// several are still left.
func newShape(t reflect.Type) shape {
	found := shape{}
	seen := map[reflect.Type]bool{}
	for level := []embedded{{t: t}}; len(level) > 0; {
		candidates, deeper := fieldsOf(level, seen)
		for name, all := range candidates {
			if _, above := found[name]; above {
				continue
			}
			if tagged := slices.DeleteFunc(slices.Clone(all), func(f field) bool { return !f.named }); len(tagged) > 0 {
				all = tagged
			}
			if len(all) > 1 {
				all = []field{{}} // no field, but it still hides deeper ones
			}
			found[name] = all[0]
		}
		level = deeper
	}
	maps.DeleteFunc(found, func(_ string, f field) bool { return f.t == nil })
	return found
}

// fieldsOf returns the fields of the structs of one level by name, and the structs embedded in
// them. A struct that is embedded twice contributes its fields twice.
func fieldsOf(level []embedded, seen map[reflect.Type]bool) (map[string][]field, []embedded) {
	found := map[string][]field{}
	var deeper []embedded
	for _, e := range level {
		if seen[e.t] {
			continue
		}
		seen[e.t] = true
		for i := range e.t.NumField() {
			f := e.t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			if inner.Name() == "" && inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			embeds := f.Anonymous && inner.Kind() == reflect.Struct
			if f.Tag.Get("json") == "-" || !f.IsExported() && !embeds {
				continue
			}
			if strings.ContainsFunc(name, isNoNameRune) {
				name = ""
			}
			index := append(slices.Clone(e.index), i)
			if embeds && name == "" {
				deeper = embed(deeper, embedded{t: inner, index: index})
				continue
			}
			quoted := isScalar(inner.Kind()) && slices.Contains(strings.Split(options, ","), "string")
			add := field{t: f.Type, index: index, named: name != "", quoted: quoted}
			name = cmp.Or(name, f.Name)
			found[name] = append(found[name], add)
			if e.twice {
				found[name] = append(found[name], add)
			}
		}
	}
	return found, deeper
}

func embed(level []embedded, e embedded) []embedded {
	for i := range level {
		if level[i].t == e.t {
			level[i].twice = true
			return level
		}
	}
	return append(level, e)
}

func isScalar(kind reflect.Kind) bool {
	return kind == reflect.Bool || kind == reflect.String || isNumeric(kind)
}

// isNoNameRune reports whether r in a tag makes encoding/json ignore the tag's name.
func isNoNameRune(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

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

// DecodeJSON reads one JSON value from outside into what into points to, so that all who read the same text
// understand the same by it (S7).
//
// Invalid, as a *[JSONError] that says what is wrong and where: no text, text that is no JSON, is cut off or
// is followed by more; bytes that are no UTF-8, a byte order mark, half of a surrogate pair; a key twice, at
// any level; a field that is not known or is spelled in another case; a value of another type; a number that
// does not fit, is longer than 1,000 characters or has an exponent beyond 1,000; more than 1,000 levels.
//
// An integer takes no fraction and no exponent. In an any, numbers are json.Number. null leaves a value as
// it is, as in encoding/json. The character NUL is taken, since a file may hold it and JSON carries it
// whole; names and paths have checks of their own. A type with its own UnmarshalJSON or UnmarshalText reads
// a value itself; by then its keys, texts and numbers have been checked like all others.
//
// Any other error means that into is nothing to decode into, or that its own decoder panicked. After an
// error into may be half filled.
func DecodeJSON(text []byte, into any) error {
	return decodeJSON(text, into, true)
}

// DecodeKnownJSON is DecodeJSON for what others define, such as a provider's answer: fields that are not
// known are checked and skipped, and one that is only spelled like a known one is not known.
func DecodeKnownJSON(text []byte, into any) error {
	return decodeJSON(text, into, false)
}

// JSONError is what is wrong with JSON from outside. It is Invalid.
type JSONError struct {
	Pointer string // to the place (RFC 6901), cut short where it is long; empty: the whole text
	Text    string // one line
}

// Error names the place and the fault on one line.
func (e *JSONError) Error() string {
	if e.Pointer == "" {
		return "invalid JSON: " + e.Text
	}
	place := strconv.Quote(e.Pointer)
	return "invalid JSON at " + place[1:len(place)-1] + ": " + e.Text
}

// Unwrap makes it Invalid.
func (e *JSONError) Unwrap() error { return Invalid }

func decodeJSON(text []byte, into any, strict bool) (err error) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("decode JSON into %T: want a pointer that is not nil", into)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode JSON into %T: its decoder panics: %v", into, p)
		}
	}()
	to := spot{t: v.Type(), v: v}
	s := scanner{text: string(text), bounded: true, strict: strict}
	if err := s.whole(to); err != nil {
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
	blamed := scanner{text: s.text, strict: strict, blame: true}
	if err := blamed.whole(to); err != nil {
		return err
	}
	return &JSONError{Text: plainFault(fault)}
}

// plainFault words an error of a decoder on one short line.
func plainFault(err error) string {
	line := strconv.Quote(strings.TrimPrefix(err.Error(), "json: "))
	line = strings.ReplaceAll(line[1:len(line)-1], `\"`, `"`)
	return clipped(line, 300)
}

// The longest name and the longest pointer in a fault, in bytes.
const (
	maxNameBytes    = 100
	maxPointerBytes = 300
)

func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// jsonFault is a fault whose place is not yet known in full.
type jsonFault struct {
	text  string
	path  []string // from the inside out
	whole bool     // it is the text's, wherever it was found
}

// at says in which member or item the fault is.
func (f *jsonFault) at(name string) *jsonFault {
	if !f.whole {
		f.path = append(f.path, name)
	}
	return f
}

func faultf(format string, args ...any) *jsonFault {
	return &jsonFault{text: fmt.Sprintf(format, args...)}
}

// told makes an error of a fault.
func (f *jsonFault) told() error {
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

// maxPointers bounds how many pointers lead to a value. A type may point to itself for ever.
const maxPointers = 100

// spot is where a value of a JSON text will go. It knows what encoding/json would do there, so that a fault
// is found with its place before anything is decoded. The zero value takes anything.
type spot struct {
	t      reflect.Type  // nil: anything
	v      reflect.Value // what stands there already; may be absent
	own    bool          // it reads itself
	quoted bool          // a field with the option string
}

// settled follows pointers, and an interface that holds one.
func (to spot) settled() (spot, *jsonFault) {
	for range maxPointers {
		switch {
		case to.t == nil:
			return spot{}, nil
		case readsItself(to.t):
			to.own, to.v = true, reflect.Value{}
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
			return spot{}, nil
		default:
			return to, nil
		}
	}
	return spot{}, faultf("no value fits %s, which is pointers without end", to.t)
}

// readsItself reports whether a type has a decoder of its own. encoding/json finds it on the type and on a
// pointer to it, since all that it fills has an address.
func readsItself(t reflect.Type) bool {
	if kind := t.Kind(); kind == reflect.Interface || t.PkgPath() == "" && kind != reflect.Struct && kind != reflect.Pointer {
		return false // it has no methods of its own
	}
	for _, own := range []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()} {
		if t.Implements(own) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return false
}

// takes says what is wrong with a value of a JSON type here; token is its text, where it is short.
func (to spot) takes(got, token string) *jsonFault {
	if to.t == nil || to.own || got == "null" {
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
			want = "number" // and never a string that holds one
		}
	default:
		if isNumeric(kind) {
			return to.takesNumber(got, token)
		}
	}
	if got != want {
		return faultf("got %s, want %s", got, want)
	}
	return nil
}

func isNumeric(kind reflect.Kind) bool { return reflect.Int <= kind && kind <= reflect.Float64 }

// takesNumber says what is wrong with a value where a Go number goes.
func (to spot) takesNumber(got, token string) *jsonFault {
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

// takesKey says what is wrong with a key of a map. Integers are written in one way only, since two keys
// could else be one.
func (to spot) takesKey(key string) *jsonFault {
	if to.t == nil || to.own || to.t.Kind() != reflect.Map {
		return nil
	}
	t := to.t.Key()
	if readsItself(t) || t.Kind() == reflect.String {
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
		return faultf("the key is no %s in plain digits", t.Kind())
	}
	return nil
}

// element is where the value of a key goes, unless it is a field.
func (to spot) element() spot {
	if to.t == nil || to.own || to.t.Kind() != reflect.Map {
		return spot{}
	}
	return spot{t: to.t.Elem()}
}

// item is where the item of an array goes. An array in Go that is too short would lose the rest.
func (to spot) item(i int) (spot, *jsonFault) {
	if to.t == nil || to.own {
		return spot{}, nil
	}
	if to.t.Kind() == reflect.Array && i >= to.t.Len() {
		return spot{}, faultf("at most %d items are taken", to.t.Len())
	}
	child := spot{t: to.t.Elem()}
	if to.v.IsValid() && i < to.v.Len() {
		child.v = to.v.Index(i)
	}
	return child, nil
}

// tried finds the fault of a value that reads itself, or is base64, by letting it.
func (to spot) tried(token string) *jsonFault {
	if to.t == nil || !to.own && to.t.Kind() != reflect.Slice {
		return nil
	}
	if err := json.Unmarshal([]byte(token), reflect.New(to.t).Interface()); err != nil {
		return &jsonFault{text: plainFault(err)}
	}
	return nil
}

// shape is the fields of a struct by the names that they have in JSON.
type shape map[string]field

// shapes holds the shapes of the types that were decoded into, by type. It is a global because what it holds is true
// for the whole program and never changes: finding it anew would cost ten times what a small text does.
var shapes sync.Map // of reflect.Type to shape

// field is a field of a struct, perhaps of one that is embedded.
type field struct {
	t      reflect.Type
	index  []int // as in reflect.Value.FieldByIndex
	named  bool  // by a tag
	quoted bool  // the option string
}

// shapeOf returns the fields of the struct that an object goes to.
func shapeOf(to spot) (shape, bool) {
	if to.t == nil || to.own || to.t.Kind() != reflect.Struct {
		return nil, false
	}
	if found, ok := shapes.Load(to.t); ok {
		return found.(shape), true
	}
	found := newShape(to.t)
	shapes.Store(to.t, found)
	return found, true
}

// field returns where the value of a key goes, or that it is to be skipped.
func (s *scanner) field(to spot, fields shape, key string) (child spot, skip bool, fault *jsonFault) {
	f, ok := fields[key]
	if !ok && !s.strict {
		return spot{}, true, nil
	}
	if !ok {
		for name := range fields {
			if strings.EqualFold(name, key) {
				return spot{}, false, faultf("unknown field; it is spelled %s", strconv.Quote(name))
			}
		}
		return spot{}, false, faultf("unknown field")
	}
	child = spot{t: f.t, v: to.v, quoted: f.quoted}
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

// embedded is a struct whose fields belong to the one around it.
type embedded struct {
	t     reflect.Type
	index []int
	twice bool // it is there twice on its level, so that its fields cancel out
}

// newShape finds the fields of a struct as encoding/json does: of several with one name those count that are
// embedded least deeply, of these the ones with a tag, and if there is still more than one, none.
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
				all = []field{{}} // hides those that are deeper, too
			}
			found[name] = all[0]
		}
		level = deeper
	}
	maps.DeleteFunc(found, func(_ string, f field) bool { return f.t == nil })
	return found
}

// fieldsOf returns the fields of the structs of one level by their names, and the structs that are embedded
// in them. What is embedded twice gives its fields twice.
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

// isNoNameRune reports what makes encoding/json ignore the name in a tag.
func isNoNameRune(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

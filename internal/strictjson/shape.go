package strictjson

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

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
func (s *scanner) field(to target, fields shape, key string) (child target, skip bool, fault *openFault) {
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

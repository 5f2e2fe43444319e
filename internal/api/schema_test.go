package api

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine"
)

// TestH1Fields: the schema of each Go type names the fields that encoding/json writes for it, and
// no others.
func TestH1Fields(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Engine: struct{ engine.Engine }{}, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, schema := range a.schemas().Map() {
		of := a.schemas().TypeFromRef("#/components/schemas/" + name)
		if of == nil || of.Kind() != reflect.Struct || ownJSON(of) || schema.Type != "object" {
			continue
		}
		checked++
		written := map[string]int{}
		jsonFields(of, 0, written)
		for _, field := range slices.Sorted(maps.Keys(written)) {
			if schema.Properties[field] == nil {
				t.Errorf("%s: the schema does not name the field %q of %v", name, field, of)
			}
		}
		for field := range schema.Properties {
			if _, ok := written[field]; !ok && field != "$schema" {
				t.Errorf("%s: the schema names the field %q, which %v does not write", name, field, of)
			}
		}
	}
	if checked < 150 {
		t.Errorf("only %d types were checked", checked)
	}
}

// ownJSON reports whether a type encodes itself.
func ownJSON(of reflect.Type) bool {
	p := reflect.PointerTo(of)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// jsonFields adds the names of the fields that encoding/json writes, with their depths.
func jsonFields(of reflect.Type, depth int, into map[string]int) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			jsonFields(inner, depth+1, into)
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			if at, ok := into[name]; !ok || depth < at {
				into[name] = depth
			}
		}
	}
}

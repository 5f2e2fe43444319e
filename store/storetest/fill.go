package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/perdure/perdure"
)

// filled returns a T with every field set, each to a different value, so that a field which a store
// loses is noticed. Raw JSON is compact; facts and other interfaces stay nil.
func filled[T any]() T {
	var v T
	f := filler{}
	f.fill(reflect.ValueOf(&v).Elem())
	return v
}

// filler counts the filled fields, so that no two are equal.
type filler struct{ n int }

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(moment(f.n)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes(fmt.Appendf(nil, `{"n":%d,"text":"<&>"}`, f.n))
		return
	case reflect.TypeFor[perdure.LabelTerm]():
		v.SetString(fmt.Sprintf("k%d=ü", f.n))
		return
	case reflect.TypeFor[perdure.Decision]():
		all := []perdure.Decision{perdure.Allow, perdure.Ask, perdure.Deny}
		v.Set(reflect.ValueOf(all[f.n%len(all)]))
		return
	case reflect.TypeFor[perdure.Labels]():
		v.Set(reflect.ValueOf(perdure.Labels{fmt.Sprintf("k%d", f.n): "<ü & \u2028>", "a.b/c": ""}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d: ü", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint8:
		v.SetUint(uint64(f.n % 256))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.25)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fillAll(v)
	case reflect.Array:
		f.fillAll(v)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Interface:
	default:
		panic("storetest: cannot fill a " + v.Type().String())
	}
}

func (f *filler) fillAll(v reflect.Value) {
	for i := range v.Len() {
		f.fill(v.Index(i))
	}
}

// scribble changes everything reachable from values through pointers and slices, as a careless
// caller may change what it got from a store, or passed to it.
func scribble(values ...any) {
	for _, v := range values {
		scribbleOn(reflect.ValueOf(v))
	}
}

func scribbleOn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scribbleOn(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			scribbleOn(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			scribbleOn(v.Field(i))
		}
	case reflect.Map:
		v.Clear()
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}

// storedResult returns a result as its JSON has it, which is the form in which stores keep it.
func storedResult(s *subject, result perdure.ToolResult) perdure.ToolResult {
	s.Helper()
	return throughJSON(s, perdure.ToolCompleted{Result: result}).Result
}

// storedTask returns a record as its JSON has it.
func storedTask(s *subject, t perdure.Task) perdure.Task {
	s.Helper()
	return throughJSON(s, perdure.TaskCreated{Task: t}).Task
}

func throughJSON[F perdure.Fact](s *subject, fact F) F {
	s.Helper()
	e, err := perdure.DecodeEvent(s.encode(perdure.Event{Fact: fact}))
	if err != nil {
		s.Fatal(err)
	}
	return e.Fact.(F)
}

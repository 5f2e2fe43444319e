package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/strictjson"
)

// body is one as an endpoint would have it.
type body struct {
	Admin  bool            `json:"admin,omitempty"`
	Name   string          `json:"name"`
	Count  int             `json:"count,omitempty"`
	Tiny   int8            `json:"tiny,omitempty"`
	Size   uint32          `json:"size,omitempty"`
	Ratio  float64         `json:"ratio,omitempty"`
	Half   float32         `json:"half,omitempty"`
	Exact  json.Number     `json:"exact,omitempty"`
	Any    any             `json:"any,omitempty"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	Bytes  []byte          `json:"bytes,omitempty"`
	Next   *body           `json:"next,omitempty"`
	Items  []item          `json:"items,omitempty"`
	ByName map[string]item `json:"by_name,omitempty"`
	ByID   map[int]string  `json:"by_id,omitempty"`
	ByUint map[uint8]bool  `json:"by_uint,omitempty"`
	Pair   [2]int          `json:"pair,omitzero"`
	At     time.Time       `json:"at,omitzero"`
	Quoted int64           `json:"quoted,omitempty,string"`
	Says   string          `json:"says,omitempty,string"`
	Hidden string          `json:"-"`
	Plain  string
	Base
	*Deep
	own
}

type item struct {
	ID    string `json:"id"`
	Owner *owner `json:"owner,omitempty"`
}

type owner struct {
	Admin bool `json:"admin"`
}

type Base struct {
	Verbose bool   `json:"verbose,omitempty"`
	Name    string `json:"name,omitempty"` // hidden by the one of body
}

type Deep struct {
	Level int `json:"level,omitempty"`
}

type own struct {
	Secret string `json:"secret,omitempty"`
}

// hostile is a text that is refused, where and why.
type hostile struct{ text, pointer, fault string }

func hostileTexts() []hostile { return append(hostileForms(), hostileValues()...) }

// hostileForms are no JSON.
func hostileForms() []hostile {
	return []hostile{
		// no value, half a value, more than a value
		{"", "", "it is empty"}, {" ", "", "it is empty"}, {"\n\t\r ", "", "it is empty"},
		{"{", "", "it is cut off"}, {`{"any":[`, "", "it is cut off"}, {`"`, "", "it is cut off"}, {`"a`, "", "it is cut off"}, {`"\`, "", "it is cut off"},
		{`"\u00`, "", "it is cut off"}, {"t", "", "it is cut off"}, {"nul", "", "it is cut off"}, {"-", "", "it is cut off"}, {"1.", "", "it is cut off"},
		{"1e", "", "it is cut off"}, {"1e+", "", "it is cut off"}, {`{"name"`, "", "it is cut off"}, {`{"name":`, "", "it is cut off"},
		{`{"name":"a"`, "", "it is cut off"}, {`{"name":"a",`, "", "it is cut off"}, {`{"any":[1`, "", "it is cut off"}, {`{"any":[1,`, "", "it is cut off"},
		{`{"any":{"a":tru`, "", "it is cut off"}, {`{"na`, "", "it is cut off"},
		{`{} {}`, "", "text after the value"}, {`{}x`, "", "text after the value"}, {`{},`, "", "text after the value"}, {`{}]`, "", "text after the value"},
		{"{}\x00", "", "text after the value"}, {`null null`, "", "text after the value"}, {"{}\ufeff", "", "text after the value"}, {"{}//", "", "text after the value"},
		{"\ufeff{}", "", "byte order mark"}, {"\ufeff", "", "byte order mark"}, {"\xff\xfe{\x00}\x00", "", "want a value"}, {"\xfe\xff\x00{", "", "want a value"},
		{"{\x00}", "", `want a key in quotes, got '\x00' (byte 2)`}, {"\x00", "", `want a value, got '\x00' (byte 1)`},
		{"\u00a0{}", "", "want a value"}, {"\v{}", "", "want a value"}, {"\f{}", "", "want a value"}, {"\u2028{}", "", "want a value"},

		// what other languages call JSON
		{`{name:"a"}`, "", "want a key in quotes, got 'n' (byte 2)"}, {`{'name':"a"}`, "", "want a key in quotes"}, {`{"name":'a'}`, "/name", "want a value"},
		{`{"name":"a",}`, "", "want a key in quotes, got '}' (byte 13)"}, {`{,}`, "", "want a key in quotes"}, {`{"name" "a"}`, "", "want a colon after the key"},
		{`{"name":,}`, "/name", "want a value"}, {`{"name"}`, "", "want a colon after the key"}, {`{1:2}`, "", "want a key in quotes"}, {`{null:1}`, "", "want a key in quotes"},
		{`{"name":"a" "count":1}`, "", "want a comma or '}'"}, {`{"name":"a"]`, "", "want a comma or '}'"}, {`{"any":[1,]}`, "/any/1", "want a value"},
		{`{"any":[,1]}`, "/any/0", "want a value"}, {`{"any":[1 2]}`, "/any", "want a comma or ']'"}, {`{"any":[1}}`, "/any", "want a comma or ']'"},
		{`{"any":[1;2]}`, "/any", "want a comma"}, {`// a`, "", "want a value"}, {`/* a */{}`, "", "want a value"}, {`# a`, "", "want a value"},
		{`{"name":undefined}`, "/name", "want a value"}, {`{"any":NaN}`, "/any", "want a value"}, {`{"any":Infinity}`, "/any", "want a value"}, {`{"any":-Infinity}`, "/any", "want a digit"},
		{`{"any":True}`, "/any", "want a value"}, {`{"any":None}`, "/any", "want a value"}, {`{"any":nulll}`, "", "want a comma"}, {`{"any":truefalse}`, "", "want a comma"},
		{`]`, "", "want a value"}, {`}`, "", "want a value"}, {`,`, "", "want a value"}, {`:`, "", "want a value"}, {"`a`", "", "want a value"}, {`yes`, "", "want a value"},

		// numbers
		{`{"count":01}`, "/count", "a number starts with 0"}, {`{"count":-01}`, "/count", "a number starts with 0"}, {`{"any":00}`, "/any", "a number starts with 0"},
		{`{"any":+1}`, "/any", "want a value"}, {`{"any":.5}`, "/any", "want a value"}, {`{"any":1.}`, "/any", "want a digit after the point"}, {`{"any":--1}`, "/any", "want a digit"},
		{`{"any":1e}`, "/any", "want a digit in the exponent"}, {`{"any":1e+}`, "/any", "want a digit in the exponent"}, {`{"any":1.e1}`, "/any", "want a digit after the point"},
		{`{"any":0x10}`, "", "want a comma"}, {`{"any":1_000}`, "", "want a comma"}, {`{"any":1,000}`, "", "want a key in quotes"}, {`{"any":1e1.5}`, "", "want a comma"}, {`{"any":- 1}`, "/any", "want a digit"},
		{`{"count":1.5}`, "/count", "got number 1.5, want int"}, {`{"count":1.0}`, "/count", "got number 1.0, want int"}, {`{"count":1e2}`, "/count", "got number 1e2, want int"},
		{`{"count":9223372036854775808}`, "/count", "got number 9223372036854775808, want int"}, {`{"count":-9223372036854775809}`, "/count", "want int"},
		{`{"tiny":128}`, "/tiny", "got number 128, want int8"}, {`{"tiny":-129}`, "/tiny", "want int8"}, {`{"size":-1}`, "/size", "got number -1, want uint32"}, {`{"size":-0}`, "/size", "want uint32"},
		{`{"size":4294967296}`, "/size", "want uint32"}, {`{"ratio":1e400}`, "/ratio", "got number 1e400, want float64"}, {`{"ratio":-1e309}`, "/ratio", "want float64"},
		{`{"half":1e39}`, "/half", "got number 1e39, want float32"}, {`{"any":1e1001}`, "/any", "number out of range: 1e1001"}, {`{"any":1e-1001}`, "/any", "number out of range"},
		{`{"any":1e1000000}`, "/any", "number out of range"}, {`{"any":1e99999999999999999999}`, "/any", "number out of range"}, {`{"any":1E-00000000000000000000000001001}`, "/any", "number out of range"},
		{`{"raw":[1e1001]}`, "/raw/0", "number out of range"}, {`{"exact":1e1001}`, "/exact", "number out of range"}, {`{"unknown":1e1001}`, "/unknown", "unknown field"},
		{`{"any":` + strings.Repeat("9", 1001) + `}`, "/any", "number out of range"}, {`{"any":1e` + strings.Repeat("0", 5000) + `1}`, "/any", "number out of range"},
		{`{"exact":"5"}`, "/exact", "got string, want number"}, {`{"count":"5"}`, "/count", "got string, want integer"}, {`{"ratio":"0.5"}`, "/ratio", "got string, want number"},

		// strings
		{`{"name":"\ud800"}`, "/name", `\ud800 is half of a surrogate pair`}, {`{"name":"\udc00"}`, "/name", `\udc00 is half`}, {`{"name":"\ud800\ud800"}`, "/name", "half"}, {`{"name":"\udc00\ud800"}`, "/name", "half"},
		{`{"name":"\ud800x"}`, "/name", "half"}, {`{"name":"\ud800\n"}`, "/name", "half"}, {`{"name":"\uD83D\u0041"}`, "/name", `\uD83D is half`}, {`{"name":"a\ud83d\ude00\ude00"}`, "/name", `\ude00 is half`},
		{`{"\ud800":1}`, "", "half"}, {`{"any":{"\udfff":1}}`, "/any", "half"}, {`{"raw":"\ud800"}`, "/raw", "half"}, {`{"any":["\udbff"]}`, "/any/0", "half"}, {`{"says":"\"\\ud800\""}`, "/says", "half"},
		{"{\"name\":\"\xff\"}", "/name", "the byte 0xff in a string is not UTF-8"}, {"{\"name\":\"\xc3\"}", "/name", "not UTF-8"}, {"{\"name\":\"\xed\xa0\x80\"}", "/name", "not UTF-8"}, {"{\"name\":\"\xc0\x80\"}", "/name", "not UTF-8"},
		{"{\"name\":\"\xf4\x90\x80\x80\"}", "/name", "not UTF-8"}, {"{\"\xff\":1}", "", "not UTF-8"}, {"{\"raw\":\"\x80\"}", "/raw", "not UTF-8"}, {"{\"any\":[\"a\",\"\xe2\x82\"]}", "/any/1", "not UTF-8"},
		{"{\"name\":\"\n\"}", "/name", "the character U+000A in a string is not escaped"}, {"{\"name\":\"\t\"}", "/name", "U+0009"}, {"{\"name\":\"\x00\"}", "/name", "U+0000"}, {"{\"name\":\"\x1f\"}", "/name", "U+001F"},
		{`{"name":"\x41"}`, "/name", "want an escape that JSON has, got 'x'"}, {`{"name":"\'"}`, "/name", "want an escape"}, {`{"name":"\U0041"}`, "/name", "want an escape"}, {`{"name":"\0"}`, "/name", "want an escape"},
		{`{"name":"\u12g4"}`, "/name", "four hexadecimal digits"}, {`{"name":"\u+123"}`, "/name", "four hexadecimal digits"}, {`{"name":"\u{41}"}`, "/name", "four hexadecimal digits"},
	}
}

// hostileValues are JSON, and not what is wanted.
func hostileValues() []hostile {
	return []hostile{
		// keys
		{`{"name":"a","name":"b"}`, "/name", "duplicate key"}, {`{"name":"a","\u006eame":"b"}`, "/name", "duplicate key"}, {`{"admin":false,"name":"a","admin":true}`, "/admin", "duplicate key"},
		{`{"any":{"a":1,"a":1}}`, "/any/a", "duplicate key"}, {`{"any":[{},{"b":{"a":1,"a":2}}]}`, "/any/1/b/a", "duplicate key"}, {`{"raw":{"a":1,"a":2}}`, "/raw/a", "duplicate key"},
		{`{"next":{"next":{"count":1,"count":2}}}`, "/next/next/count", "duplicate key"}, {`{"items":[{"id":"a","id":"b"}]}`, "/items/0/id", "duplicate key"}, {`{"any":{"":1,"":2}}`, "/any/", "duplicate key"},
		{`{"by_name":{"a":{"id":""},"a":{"id":""}}}`, "/by_name/a", "duplicate key"}, {`{"any":{"a/b~c":1,"a/b~c":2}}`, "/any/a~1b~0c", "duplicate key"}, {`{"by_id":{"1":"a","1":"b"}}`, "/by_id/1", "duplicate key"},
		{`{"by_id":{"01":"a"}}`, "/by_id/01", "a number in plain digits (int)"}, {`{"by_id":{"+1":"a"}}`, "/by_id/+1", "plain digits"}, {`{"by_id":{"-0":"a"}}`, "/by_id/-0", "plain digits"}, {`{"by_id":{"a":"a"}}`, "/by_id/a", "plain digits"},
		{`{"by_id":{"1.0":"a"}}`, "/by_id/1.0", "plain digits"}, {`{"by_id":{"9223372036854775808":"a"}}`, "/by_id/9223372036854775808", "plain digits"}, {`{"by_uint":{"256":true}}`, "/by_uint/256", "plain digits"}, {`{"by_uint":{"-1":true}}`, "/by_uint/-1", "plain digits"},
		{`{"Admin":true}`, "/Admin", `unknown field; it is spelled "admin"`}, {`{"ADMIN":true}`, "/ADMIN", `it is spelled "admin"`}, {`{"aDMIN":true,"admin":false}`, "/aDMIN", `it is spelled "admin"`},
		{`{"next":{"Admin":true}}`, "/next/Admin", "it is spelled"}, {`{"items":[{"id":"a"},{"ID":"a"}]}`, "/items/1/ID", "it is spelled"}, {`{"items":[{"owner":{"Admin":true}}]}`, "/items/0/owner/Admin", "it is spelled"},
		{`{"by_name":{"x":{"Id":"a"}}}`, "/by_name/x/Id", "it is spelled"}, {`{"plain":""}`, "/plain", `it is spelled "Plain"`}, {`{"Verbose":true}`, "/Verbose", `it is spelled "verbose"`}, {`{"Level":1}`, "/Level", "it is spelled"},
		{`{"\u0041dmin":true}`, "/Admin", "it is spelled"}, {`{"re\u017fult":1}`, "/reſult", "unknown field"}, {`{"\u017fecret":""}`, "/ſecret", `it is spelled "secret"`}, {`{"by_\u212aey":1}`, "/by_\u212aey", "unknown field"},
		{`{"bogus":1}`, "/bogus", "unknown field"}, {`{"":1}`, "/", "unknown field"}, {`{"Hidden":"a"}`, "/Hidden", "unknown field"}, {`{"-":"a"}`, "/-", "unknown field"}, {`{"name ":"a"}`, "/name ", "unknown field"},
		{`{"Base":{}}`, "/Base", "unknown field"}, {`{"Deep":null}`, "/Deep", "unknown field"}, {`{"own":{}}`, "/own", "unknown field"}, {`{"na\u0000me":"a"}`, "/na\x00me", "unknown field"}, {`{"next":{"x/y~z":1}}`, "/next/x~1y~0z", "unknown field"},
		{`{"__proto__":{"admin":true}}`, "/__proto__", "unknown field"}, {`{"admin\u200b":true}`, "/admin\u200b", "unknown field"}, {`{"аdmin":true}`, "/аdmin", "unknown field"},

		// types
		{`[]`, "", "got array, want object"}, {`"a"`, "", "got string, want object"}, {`1`, "", "got number, want object"}, {`true`, "", "got boolean, want object"},
		{`{"name":1}`, "/name", "got number, want string"}, {`{"name":{}}`, "/name", "got object, want string"}, {`{"name":["a"]}`, "/name", "got array, want string"}, {`{"admin":1}`, "/admin", "got number, want boolean"},
		{`{"admin":"true"}`, "/admin", "got string, want boolean"}, {`{"count":true}`, "/count", "got boolean, want integer"}, {`{"items":{}}`, "/items", "got object, want array"}, {`{"items":[1]}`, "/items/0", "got number, want object"},
		{`{"by_name":[]}`, "/by_name", "got array, want object"}, {`{"pair":[1,2,3]}`, "/pair/2", "at most 2 items"}, {`{"pair":["a"]}`, "/pair/0", "got string, want integer"}, {`{"bytes":"*"}`, "/bytes", "illegal base64"},
		{`{"bytes":1}`, "/bytes", "got number, want string"}, {`{"bytes":[256]}`, "/bytes/0", "got number 256, want uint8"}, {`{"at":"now"}`, "/at", "cannot parse"}, {`{"at":1}`, "/at", ""}, {`{"items":[{"id":"a"},{"owner":[]}]}`, "/items/1/owner", "got array, want object"},
		{`{"quoted":1}`, "/quoted", "got number, want string"}, {`{"quoted":"a"}`, "/quoted", "want a value"}, {`{"quoted":"1.5"}`, "/quoted", "got number 1.5, want int64"}, {`{"quoted":""}`, "/quoted", "it is empty"}, {`{"says":"a"}`, "/says", "want a value"},

		// size
		{strings.Repeat("[", 100_000), "", "got array, want object"}, {`{"any":` + strings.Repeat("[", 100_000), "", "nested deeper than 1000"},
		{`{"any":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "", "nested deeper than 1000"}, {`{"any":` + strings.Repeat(`{"a":`, 100_000), "", "nested deeper than 1000"},
		{strings.Repeat(`{"next":`, 100_000), "", "nested deeper than 1000"}, {`{"raw":` + strings.Repeat("[{\"a\":", 1000), "", "nested deeper than 1000"},
		{`{"` + strings.Repeat("k", 1<<20) + `":1}`, "", "unknown field"},
	}
}

// isFault reports whether an error says what is wrong with the text.
func isFault(err error) bool {
	var fault *strictjson.Fault
	return errors.As(err, &fault)
}

// TestS7HostileJSON wants each hostile text refused with its fault and its place, on one short
// line.
func TestS7HostileJSON(t *testing.T) {
	t.Parallel()
	texts := hostileTexts()
	if len(texts) < 150 {
		t.Errorf("only %d texts", len(texts))
	}
	for _, c := range texts {
		t.Run(fmt.Sprintf("%.60q", c.text), func(t *testing.T) {
			t.Parallel()

			begun := time.Now()
			err := strictjson.Decode([]byte(c.text), &body{})
			took := time.Since(begun)

			var fault *strictjson.Fault
			if !errors.As(err, &fault) {
				t.Fatalf("got %v, want a fault", err)
			}
			if long := c.pointer == "" && len(fault.Pointer) > 100; fault.Pointer != c.pointer && !long || !strings.Contains(fault.Text, c.fault) {
				t.Errorf("got %q: %s; want %q: %s", fault.Pointer, fault.Text, c.pointer, c.fault)
			}
			if line := err.Error(); len(line) > 1000 || strings.ContainsAny(line, "\n\x00\x1b") {
				t.Errorf("no short line: %q", line)
			}
			if took > 30*time.Second { // no quadratic work; the limit of S7 is the benchmark's
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestS7GoodJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 999) + strings.Repeat("]", 999)
	for _, text := range []string{
		`{}`, " {\r\n\t} ", `null`, `{"name":"a","admin":true}`, `{"name":null,"next":null,"items":null,"pair":null,"quoted":null}`, `{"name":"\u0000\u007f\ufffd\uffff"}`,
		`{"name":"\ud83d\ude00\"\\\/\b\f\n\r\t\u00e9"}`, "{\"name\":\"\U0001F600\u2028\x7f\"}", `{"count":-9223372036854775808,"tiny":-128,"size":4294967295}`,
		`{"ratio":1e308,"half":0.1,"exact":12345678901234567890.10}`, `{"ratio":1e-400}`, `{"any":1e1000}`, `{"any":[1e-1000,-0,0.0,1E+5,[],{},"",null]}`, `{"any":` + deep + `}`,
		`{"any":{"a":1,"A":2,"\u0000":3}}`, `{"raw": {"b" : [ 1.0 ], "a":null} }`, `{"bytes":"aGk="}`, `{"bytes":[1,2]}`, `{"next":{"next":{"name":"b"}}}`, `{"items":[{"id":"1"},{"id":"2","owner":{"admin":false}}]}`,
		`{"by_name":{"a":{"id":"1"},"A":{"id":"2"}},"by_id":{"-1":"a","10":"b","0":"c"},"by_uint":{"255":true}}`, `{"pair":[1]}`, `{"pair":[1,2]}`, `{"at":"2026-11-21T03:00:00Z"}`,
		`{"quoted":"-5","says":"\"a\""}`, `{"Plain":"x","verbose":true,"level":3,"secret":"s"}`,
	} {
		t.Run(fmt.Sprintf("%.60s", text), func(t *testing.T) {
			t.Parallel()
			var got, want body
			dec := json.NewDecoder(strings.NewReader(text))
			dec.UseNumber()
			if err := dec.Decode(&want); err != nil {
				t.Fatal(err)
			}

			strict := strictjson.Decode([]byte(text), &got)

			if strict != nil || !reflect.DeepEqual(got, want) { // cmp takes for ever on deep values
				t.Errorf("%v\n got %+v\nwant %+v", strict, got, want)
			}
		})
	}
}

// TestDecodeKnown: what is not known is skipped, also what is only spelled like something
// known.
func TestDecodeKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want body
	}{
		{`{"Admin":true}`, body{}},
		{`{"Admin":true,"admin":false,"ADMIN":true}`, body{}},
		{`{"admin":true,"Admin":false}`, body{Admin: true}},
		{`{"x":1,"name":"a"}`, body{Name: "a"}},
		{`{"name":"a","x":{"name":"b"}}`, body{Name: "a"}},
		{`{"x":1 , "y":[2] ,"name":"a", "Name":"b","count":3 , "z":null }`, body{Name: "a", Count: 3}},
		{`{"x":1,"name":"a","y":2,"Z":3,"count":4,"w":5}`, body{Name: "a", Count: 4}},
		{`{"next":{"Name":"b","NEXT":{"name":"c"}},"x":{}}`, body{Next: &body{}}},
		{`{"items":[{"ID":"a","id":"b","Id":"c"},{"iD":"d"}]}`, body{Items: []item{{ID: "b"}, {}}}},
		{`{"by_name":{"K":{"ID":"a","owner":{"Admin":true}}}}`, body{ByName: map[string]item{"K": {Owner: &owner{}}}}},
		{`{"any":{"Admin":1,"x":2}}`, body{Any: map[string]any{"Admin": json.Number("1"), "x": json.Number("2")}}},
		{`{"raw":{"Admin": 1},"Raw":2}`, body{Raw: json.RawMessage(`{"Admin": 1}`)}},
		{`{"\u0041dmin":true,"\u0061dmin":true}`, body{Admin: true}},
		{`{"Verbose":true,"Level":9,"SECRET":"s","verbose":true}`, body{Base: Base{Verbose: true}}},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			text := []byte(c.text)
			var got body

			err := strictjson.DecodeKnown(text, &got)

			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(body{})); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if string(text) != c.text {
				t.Errorf("the caller's text was changed: %s", text)
			}
		})
	}
	for _, c := range hostileTexts() {
		if strings.HasPrefix(c.fault, "unknown field") || strings.HasPrefix(c.fault, "it is spelled") {
			continue
		}
		if err := strictjson.DecodeKnown([]byte(c.text), &body{}); !isFault(err) {
			t.Errorf("%.60q: got %v, want a fault", c.text, err)
		}
	}
	for _, text := range []string{`{"x":{"a":1,"a":2}}`, `{"x":1,"x":2}`, `{"x":"\ud800"}`, `{"x":1e1001}`} {
		if err := strictjson.DecodeKnown([]byte(text), &body{}); !isFault(err) {
			t.Errorf("%s is skipped: got %v, want a fault", text, err)
		}
	}
}

type (
	loose  struct{ Seen string }
	pills  struct{}
	weird  *weird
	noHome struct {
		C chan int     `json:"c,omitempty"`
		F func()       `json:"f,omitempty"`
		X complex128   `json:"x,omitempty"`
		E fmt.Stringer `json:"e,omitempty"`
	}
	twins struct {
		LeftTwin
		RightTwin
		Tagged string `json:"Both"`
	}
	LeftTwin  struct{ Both, Left string }
	RightTwin struct{ Both, Left string }
	envelope  struct {
		Type string `json:"type"`
		Load any    `json:"load"`
	}
	clashing struct {
		*clashing
		Name string `json:"name"`
	}
)

func (l *loose) UnmarshalJSON(text []byte) error {
	l.Seen = string(text)
	return nil
}

func (p *pills) UnmarshalJSON([]byte) error { panic("a pill") }

// TestS7Types: types that encoding/json treats in a way of its own.
func TestS7Types(t *testing.T) {
	t.Parallel()
	load := &item{}
	var endless weird
	for name, c := range map[string]struct {
		text    string
		into    any
		want    any
		invalid bool
		fault   string
	}{
		"no pointer":                        {`{}`, body{}, nil, false, "want a pointer"},
		"nil":                               {`{}`, nil, nil, false, "want a pointer"},
		"a nil pointer":                     {`{}`, (*body)(nil), nil, false, "want a pointer"},
		"a decoder that panics":             {`{}`, &pills{}, nil, false, "panicked: a pill"},
		"a pointer to itself":               {`1`, &endless, nil, true, "endless pointer type"},
		"a channel":                         {`{"c":1}`, &noHome{}, nil, true, "at /c: got number, want chan int"},
		"a function":                        {`{"f":{}}`, &noHome{}, nil, true, "at /f: got object, want func()"},
		"a complex number":                  {`{"x":1}`, &noHome{}, nil, true, "at /x: got number, want complex128"},
		"an interface with methods":         {`{"e":1}`, &noHome{}, nil, true, "at /e: got number, want fmt.Stringer"},
		"null fits all":                     {`{"c":null,"f":null,"x":null,"e":null}`, &noHome{}, &noHome{}, false, ""},
		"its own decoder gets the text":     {`[{"B":1, "b":2}]`, &[]loose{}, &[]loose{{`{"B":1, "b":2}`}}, false, ""},
		"its own decoder gets no twins":     {`[{"b":1,"b":2}]`, &[]loose{}, nil, true, "at /0/b: duplicate key"},
		"fields that cancel out":            {`{"Left":"a"}`, &twins{}, nil, true, "at /Left: unknown field"},
		"a field that hides deeper ones":    {`{"Both":"a"}`, &twins{}, &twins{Tagged: "a"}, false, ""},
		"a struct in itself":                {`{"name":"a"}`, &clashing{}, &clashing{Name: "a"}, false, ""},
		"an any that holds a pointer":       {`{"load":{"id":"a"}}`, &envelope{Load: &item{}}, &envelope{Load: &item{ID: "a"}}, false, ""},
		"a variant behind such an any":      {`{"load":{"ID":"a"}}`, &envelope{Load: load}, nil, true, `at /load/ID: unknown field; it is spelled "id"`},
		"a map of any":                      {`{"A":1,"a":1.50}`, &map[string]any{}, &map[string]any{"A": json.Number("1"), "a": json.Number("1.50")}, false, ""},
		"a key that escapes to a terminal":  {`{"\u001b[2J\n":1}`, &item{}, nil, true, `invalid JSON at /\x1b[2J\n: unknown field`},
		"what was there stays where absent": {`{"id":"b"}`, &item{ID: "a", Owner: &owner{Admin: true}}, &item{ID: "b", Owner: &owner{Admin: true}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := strictjson.Decode([]byte(c.text), c.into)

			if c.fault == "" {
				if err != nil || !reflect.DeepEqual(c.into, c.want) {
					t.Errorf("got %+v, %v; want %+v", c.into, err, c.want)
				}
				return
			}
			if err == nil || isFault(err) != c.invalid || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %v, want %q", err, c.fault)
			}
		})
	}
	if load.ID != "" {
		t.Errorf("got %+v behind the any", load)
	}
}

// FuzzDecode compares with encoding/json: what is taken means the same there, in an any and in
// a struct, and what is refused only here has a reason that is known.
func FuzzDecode(f *testing.F) {
	for _, c := range hostileTexts() {
		if len(c.text) < 1000 {
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		compare[any](t, text)
		compare[body](t, text)
		compare[map[string]body](t, text)
		compareKnown(t, text)
	})
}

// known reasons to refuse what encoding/json takes.
func reasons() []string {
	return []string{
		"duplicate key", "unknown field", "half of a surrogate pair", "not UTF-8", "number out of range", "nested deeper than", "at most 2 items",
		"got string, want number", // in a json.Number
		"in plain digits", "byte order mark", "it is empty", "text after the value",
	}
}

func compare[T any](t *testing.T, text []byte) {
	t.Helper()
	var got, want T
	ours := strictjson.Decode(text, &got)
	theirs := decodeLoosely(text, &want)
	var fault *strictjson.Fault
	switch {
	case ours == nil && theirs != nil:
		t.Errorf("%q is taken into %T, and encoding/json says %v", text, got, theirs)
	case ours == nil && !reflect.DeepEqual(got, want):
		t.Errorf("%q means two things:\n got %#v\nwant %#v", text, got, want)
	case ours == nil:
	case !errors.As(ours, &fault) || len(ours.Error()) > 2000 || strings.ContainsAny(ours.Error(), "\n\x00\x1b"):
		t.Errorf("%q: got %q", text, ours)
	case theirs == nil:
		for _, reason := range reasons() {
			if strings.Contains(fault.Text, reason) {
				return
			}
		}
		t.Errorf("%q is refused without a known reason: %v", text, ours)
	}
}

// compareKnown wants that only the names that are spelled right reach a field.
func compareKnown(t *testing.T, text []byte) {
	t.Helper()
	var got item
	var want map[string]json.RawMessage
	if strictjson.DecodeKnown(text, &got) != nil {
		return
	}
	if err := decodeLoosely(text, &want); err != nil {
		t.Fatalf("%q is taken, and encoding/json says %v", text, err)
	}
	var exact item
	if raw := want["id"]; raw != nil {
		if err := json.Unmarshal(raw, &exact.ID); err != nil {
			t.Fatalf("%q is taken, and its id says %v", text, err)
		}
	}
	if got.ID != exact.ID || (got.Owner != nil) != (want["owner"] != nil && string(want["owner"]) != "null") {
		t.Errorf("%q: got %+v", text, got)
	}
}

// decodeLoosely is encoding/json, with exact numbers and nothing after the value.
func decodeLoosely(text []byte, into any) error {
	if !json.Valid(text) {
		return errors.New("no JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}

func BenchmarkDecode(b *testing.B) {
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`{"id":"item %d","owner":{"admin":false}}`, i))
	}
	wide := make([]string, 20_000)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"key %d":%d`, (i*7919)%20_000, i)
	}
	for _, c := range []struct {
		name, text string
		into       func() any
	}{
		{"small", `{"name":"a","count":3,"items":[{"id":"x"}]}`, func() any { return &body{} }},
		{"items", `{"items":[` + strings.Join(items, ",") + `]}`, func() any { return &body{} }},
		{"wide", `{` + strings.Join(wide, ",") + `}`, func() any { return new(any) }},
		{"deep", strings.Repeat(`{"b":[`, 400) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`],"a":1}`, 400), func() any { return new(any) }},
		{"too deep", strings.Repeat(`[`, 100_000), func() any { return new(any) }},
	} {
		text := []byte(c.text)
		run := func(name string, read func() error) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					_ = read()
				}
			})
		}
		run("encoding", func() error { return decodeLoosely(text, c.into()) })
		run("strict", func() error { return strictjson.Decode(text, c.into()) })
		run("known", func() error { return strictjson.DecodeKnown(text, c.into()) })
		run("canonical", func() error {
			_, err := strictjson.Canonical(text)
			return err
		})
	}
}

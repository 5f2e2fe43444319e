package sessionsql

import (
	"bytes"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "modernc.org/sqlite"
)

// rowFunction is the function through which the runtime takes the rows of a query. All of a query then runs within one
// step, which is the only one that the driver interrupts; and values come as they are stored, where the driver would make
// moments of what a column's type calls a date.
const rowFunction = "perdure_row"

// collectors are the queries whose rows are being taken, by number.
type collectors struct {
	mu   sync.Mutex // guards what follows
	last int64
	by   map[int64]*collector
}

// collector takes the rows of one query.
type collector struct {
	rows  [][]any
	bytes int
	note  string // says what was cut; the query ends then
}

// errEnough ends a query whose result is full.
var errEnough = errors.New("the result is full")

// register gives a driver the functions of ours. It is called before anything is opened.
func (c *collectors) register(d *sdk.Driver) error {
	c.by = map[int64]*collector{}
	errs := []error{d.RegisterScalarFunction(rowFunction, -1, func(_ *sdk.FunctionContext, args []driver.Value) (driver.Value, error) {
		return c.take(args)
	})}
	for name, own := range quickFunctions() {
		errs = append(errs, d.RegisterDeterministicScalarFunction(name, own.args, func(_ *sdk.FunctionContext, args []driver.Value) (driver.Value, error) {
			return own.fn(args)
		}))
	}
	return errors.Join(errs...)
}

// begin returns a new collector and its number, and what ends it.
func (c *collectors) begin() (*collector, int64, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	number, own := c.last, &collector{rows: [][]any{}}
	c.by[number] = own
	return own, number, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.by, number)
	}
}

// take takes a row: the number of its collector, then two arguments for each value, whether it is a text and the value.
// Texts come as bytes: the driver would end them at a NUL.
func (c *collectors) take(args []driver.Value) (driver.Value, error) {
	if len(args) == 0 {
		return nil, errEnough
	}
	number, _ := args[0].(int64)
	c.mu.Lock()
	own := c.by[number]
	c.mu.Unlock()
	if own == nil {
		return nil, errEnough
	}
	row := make([]any, 0, len(args)/2)
	for i := 1; i+1 < len(args); i += 2 {
		value := any(args[i+1])
		if args[i] == int64(1) {
			b, _ := value.([]byte) // an empty text comes as nil
			value = string(b)
		}
		row = append(row, value)
	}
	return int64(1), own.add(row)
}

// add takes a row, or says that there is no place for it.
func (c *collector) add(row []any) error {
	for i, v := range row {
		row[i] = plain(v)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	switch {
	case len(c.rows) == maxRows:
		c.note = fmt.Sprintf("There are more rows: the first %d are shown. Use LIMIT and OFFSET, or ask for less.", maxRows)
	case c.bytes+len(text)+1 > maxResultBytes:
		c.note = fmt.Sprintf("The result is longer than %d KB: the first %d rows are shown. Ask for fewer rows or columns, or for pieces with substr.",
			maxResultBytes>>10, len(c.rows))
	default:
		c.rows, c.bytes = append(c.rows, row), c.bytes+len(text)+1
		return nil
	}
	return errEnough
}

// plain makes a value that JSON can write: bytes as base64, and the infinities by name.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(v)}
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return v
}

// quick is a function of SQLite's, written anew.
type quick struct {
	args int32
	fn   func(args []driver.Value) (driver.Value, error)
}

// quickFunctions stand for functions of SQLite's that take a time that grows with the product of the lengths of their
// arguments: hours, for two texts of a megabyte, and nothing interrupts them. These say the same and are linear.
func quickFunctions() map[string]quick {
	return map[string]quick{
		"instr":   {2, instr},
		"replace": {3, replace},
		"trim":    {2, func(args []driver.Value) (driver.Value, error) { return trim(args, true, true), nil }},
		"ltrim":   {2, func(args []driver.Value) (driver.Value, error) { return trim(args, true, false), nil }},
		"rtrim":   {2, func(args []driver.Value) (driver.Value, error) { return trim(args, false, true), nil }},
		"unhex": {2, func([]driver.Value) (driver.Value, error) {
			return nil, errors.New("unhex takes one argument here: remove other characters before")
		}},
	}
}

func instr(args []driver.Value) (driver.Value, error) {
	if args[0] == nil || args[1] == nil {
		return nil, nil
	}
	hay, bothBytes := args[0].([]byte)
	if needle, ok := args[1].([]byte); ok && bothBytes {
		return int64(bytes.Index(hay, needle) + 1), nil
	}
	text := textOf(args[0])
	i := strings.Index(text, textOf(args[1]))
	if i < 0 {
		return int64(0), nil
	}
	return int64(utf8.RuneCountInString(text[:i]) + 1), nil
}

func replace(args []driver.Value) (driver.Value, error) {
	if args[0] == nil || args[1] == nil {
		return nil, nil
	}
	text, old := textOf(args[0]), textOf(args[1])
	if old == "" {
		return text, nil
	}
	if args[2] == nil {
		return nil, nil
	}
	put := textOf(args[2])
	if n := strings.Count(text, old); len(text)+n*(len(put)-len(old)) > maxValueBytes {
		return nil, errors.New("string or blob too big")
	}
	return strings.ReplaceAll(text, old, put), nil
}

// trim removes the characters of the second argument from the ends of the first.
func trim(args []driver.Value, left, right bool) driver.Value {
	if args[0] == nil || args[1] == nil {
		return nil
	}
	text, set := textOf(args[0]), map[string]bool{}
	for rest := textOf(args[1]); rest != ""; {
		_, size := utf8.DecodeRuneInString(rest)
		set[rest[:size]] = true
		rest = rest[size:]
	}
	for left && text != "" {
		_, size := utf8.DecodeRuneInString(text)
		if !set[text[:size]] {
			break
		}
		text = text[size:]
	}
	for right && text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		if !set[text[len(text)-size:]] {
			break
		}
		text = text[:len(text)-size]
	}
	return text
}

// textOf is a value as text, as SQLite writes it.
func textOf(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return floatText(v)
	}
	return fmt.Sprint(v)
}

// floatText writes a number with 15 digits, or with 17 where 15 do not tell it (SQLite may end on another 17th), always
// with a point, and with an exponent
// where SQLite does.
func floatText(f float64) string {
	if math.IsInf(f, 0) {
		return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "+", "", 1)
	}
	if f == 0 {
		return "0.0" // and never -0.0
	}
	text := strconv.FormatFloat(f, 'e', 14, 64)
	if same, _ := strconv.ParseFloat(text, 64); same != f { // it was written by us
		text = strconv.FormatFloat(f, 'e', 16, 64)
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	places, _ := strconv.Atoi(exponent) // likewise
	if digits := len(mantissa[strings.IndexByte(mantissa, '.'):]) - 1; -4 <= places && places <= 16 {
		mantissa, exponent = strconv.FormatFloat(f, 'f', max(digits-places, 1), 64), ""
	}
	mantissa = strings.TrimRight(mantissa, "0")
	if strings.HasSuffix(mantissa, ".") {
		mantissa += "0"
	}
	if exponent == "" {
		return mantissa
	}
	return mantissa + "e" + exponent
}

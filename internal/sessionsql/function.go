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

// rowFunction is the SQL function through which the runtime collects the rows of a query. The whole
// query then runs within a single step, and the driver can interrupt only a running step. Values
// also arrive as they are stored, whereas the driver would convert columns of a date type to times.
const rowFunction = "perdure_row"

// collectors holds the collectors of the running queries, by number.
type collectors struct {
	mu       sync.Mutex // guards the fields below
	last     int64
	byNumber map[int64]*collector
}

// collector gathers the rows of one query.
type collector struct {
	rows  [][]any
	bytes int
	note  string // describes what was cut; once set, the query ends
}

// errResultFull ends a query whose result has reached its limit.
var errResultFull = errors.New("the result is full")

// register installs the runtime's SQL functions in a driver. It must be called before a database is
// opened.
func (c *collectors) register(d *sdk.Driver) error {
	c.byNumber = map[int64]*collector{}
	errs := []error{d.RegisterScalarFunction(rowFunction, -1,
		func(_ *sdk.FunctionContext, args []driver.Value) (driver.Value, error) {
			return c.addRow(args)
		})}
	for name, own := range linearFunctions() {
		errs = append(errs, d.RegisterDeterministicScalarFunction(name, own.args,
			func(_ *sdk.FunctionContext, args []driver.Value) (driver.Value, error) {
				return own.fn(args)
			}))
	}
	return errors.Join(errs...)
}

// begin returns a new collector, its number, and a function that removes it.
func (c *collectors) begin() (*collector, int64, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	number, own := c.last, &collector{rows: [][]any{}}
	c.byNumber[number] = own
	return own, number, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byNumber, number)
	}
}

// addRow receives one row. The arguments are the number of the collector, and then two for each
// column: whether the value is a text, and the value. Texts arrive as bytes, because the driver
// would cut them at a NUL.
func (c *collectors) addRow(args []driver.Value) (driver.Value, error) {
	if len(args) == 0 {
		return nil, errResultFull
	}
	number, _ := args[0].(int64)
	c.mu.Lock()
	own := c.byNumber[number]
	c.mu.Unlock()
	if own == nil {
		return nil, errResultFull
	}
	row := make([]any, 0, len(args)/2)
	for i := 1; i+1 < len(args); i += 2 {
		value := any(args[i+1])
		if args[i] == int64(1) {
			b, _ := value.([]byte) // an empty text arrives as nil
			value = string(b)
		}
		row = append(row, value)
	}
	return int64(1), own.add(row)
}

// add appends a row. It returns errResultFull when the result is full.
func (c *collector) add(row []any) error {
	for i, v := range row {
		row[i] = jsonValue(v)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	switch {
	case len(c.rows) == maxRows:
		c.note = fmt.Sprintf("There are more rows: only the first %d are shown. Use LIMIT and OFFSET, or select "+
			"fewer rows.", maxRows)
	case c.bytes+len(text)+1 > maxResultBytes:
		c.note = fmt.Sprintf("The result is longer than %d KB: only the first %d rows are shown. Select fewer rows "+
			"or columns, or parts of long values with substr.",
			maxResultBytes>>10, len(c.rows))
	default:
		c.rows, c.bytes = append(c.rows, row), c.bytes+len(text)+1
		return nil
	}
	return errResultFull
}

// jsonValue converts a value to one that JSON can represent: bytes to base64, infinities to their
// names.
func jsonValue(v any) any {
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

// linearFunction is a replacement for a built-in SQLite function.
type linearFunction struct {
	args int32
	fn   func(args []driver.Value) (driver.Value, error)
}

// linearFunctions replace SQLite functions whose running time grows with the product of the lengths
// of their arguments: hours for two texts of a megabyte, without a way to interrupt them. The
// replacements return the same results in linear time.
func linearFunctions() map[string]linearFunction {
	return map[string]linearFunction{
		"instr":   {2, instr},
		"replace": {3, replace},
		"trim":    {2, func(args []driver.Value) (driver.Value, error) { return trim(args, true, true), nil }},
		"ltrim":   {2, func(args []driver.Value) (driver.Value, error) { return trim(args, true, false), nil }},
		"rtrim":   {2, func(args []driver.Value) (driver.Value, error) { return trim(args, false, true), nil }},
		"unhex": {2, func([]driver.Value) (driver.Value, error) {
			return nil, errors.New("unhex supports only one argument here; remove other characters first")
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

// trim removes the characters in the second argument from the ends of the first.
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

// textOf converts a value to text as SQLite does.
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

// floatText formats a number as SQLite does: with 15 digits, or with 17 where 15 do not identify it
// (SQLite may choose a different 17th digit), always with a decimal point, and with an exponent
// where SQLite uses one.
func floatText(f float64) string {
	if math.IsInf(f, 0) {
		return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "+", "", 1)
	}
	if f == 0 {
		return "0.0" // and never -0.0
	}
	text := strconv.FormatFloat(f, 'e', 14, 64)
	if same, _ := strconv.ParseFloat(text, 64); same != f { // text was just formatted, so it always parses
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

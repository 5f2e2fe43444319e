package settings

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure"
)

// LimitPrefix begins the names of the limits: their keys in a file, and their flags.
const LimitPrefix = "limits."

// limitVariable begins the environment variables of the limits.
const limitVariable = "PERDURE_LIMITS_"

// none is the word for "no limit".
const none = "none"

// Unlimited is the value of a limit that is switched off. An empty text leaves a limit as it is, as
// the variable of a shell that is set and empty.
const Unlimited = -1

// Count is a number of things. 0: not set; Unlimited: no limit.
type Count int64

// UnmarshalText reads a number, or none.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if string(text) == none {
		n, err = Unlimited, nil
	} else if len(text) == 0 {
		n, err = 0, nil
	} else if err != nil || n < 1 {
		return wrongValue(text, "a whole number from 1")
	}
	*c = Count(n)
	return err
}

// Size is a number of bytes. 0: not set; Unlimited: no limit.
type Size int64

// sizes are the units of a Size.
var sizes = []struct {
	unit  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// UnmarshalText reads a number of bytes, or one of KiB, MiB or GiB, or none.
func (s *Size) UnmarshalText(text []byte) error {
	switch string(text) {
	case none:
		*s = Unlimited
		return nil
	case "":
		*s = 0
		return nil
	}
	for _, of := range sizes {
		digits, ok := strings.CutSuffix(string(text), of.unit)
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if ok && err == nil && n > 0 && n <= math.MaxInt64/of.bytes {
			*s = Size(n * of.bytes)
			return nil
		}
	}
	return wrongValue(text, "a number of bytes, or of KiB, MiB or GiB such as 64KiB")
}

// String returns the size in the largest unit that fits.
func (s Size) String() string {
	for _, of := range []int{2, 1, 0} {
		if unit := sizes[of]; s > 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.unit
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Span is a time. 0: not set; Unlimited: for ever.
type Span time.Duration

// UnmarshalText reads a Go duration, a number of days such as 30d, or none.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if string(text) == none {
		d, err = Unlimited, nil
	} else if len(text) == 0 {
		d, err = 0, nil
	} else if err != nil || d <= 0 {
		return wrongValue(text, "a duration above 0 such as 30s, 10m or 30d")
	}
	*s = Span(d)
	return nil
}

// Money is an amount in US dollars, as text. Empty: none.
type Money string

// UnmarshalText reads a decimal number.
func (m *Money) UnmarshalText(text []byte) error {
	if string(text) == none || len(text) == 0 {
		*m = ""
		return nil
	}
	whole, part, point := strings.Cut(string(text), ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || n <= 0 || n > 1e9 || !digits(whole) || point && !digits(part) || len(part) > 6 {
		return wrongValue(text, "an amount in US dollars such as 2.50")
	}
	*m = Money(text)
	return nil
}

func wrongValue(text []byte, want string) error {
	return fmt.Errorf("%w value %.40q: use %s", perdure.Invalid, text, want)
}

// FlagName returns the name that kong gives a field: NoInput becomes no-input.
func FlagName(field string) string {
	var name strings.Builder
	for i, r := range field {
		if i > 0 && 'A' <= r && r <= 'Z' {
			name.WriteByte('-')
		}
		name.WriteRune(r)
	}
	return strings.ToLower(name.String())
}

// IsLimit reports whether a flag is a limit.
func IsLimit(flag *kong.Flag) bool { return strings.HasPrefix(flag.Name, LimitPrefix) }

// PrepareLimits is an option of kong: the limits have an environment variable each, and no help
// lists them all, because there are many.
func PrepareLimits(k *kong.Kong) error {
	for _, flag := range k.Model.Flags {
		if IsLimit(flag) {
			flag.Hidden = true
			flag.Envs = []string{LimitVariable(flag.Name)}
			flag.Tag.Envs = flag.Envs
		}
	}
	return nil
}

// LimitVariable returns the environment variable of a limit.
func LimitVariable(name string) string {
	name = strings.TrimPrefix(name, LimitPrefix)
	return limitVariable + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Bounds describes the values of a limit, from the tags of its field.
type Bounds struct {
	Default  string // as in a file; for a limit that is not set, what then counts
	Unit     string // empty: none
	Min, Max string // empty: none
	None     bool   // it can be switched off
	ByName   bool   // a list of NAME=VALUE
	Enum     string // the words that are allowed, separated by commas; empty: others are
	kind     reflect.Type
}

// BoundsOf returns the bounds of a limit; tag returns a tag of its field.
func BoundsOf(of reflect.Type, tag func(string) string) Bounds {
	b := Bounds{Default: cmp.Or(tag("default"), tag("unset")), Min: tag("min"), Max: tag("max"),
		None: tag("none") != "", Enum: tag("enum"), kind: of}
	if of.Kind() == reflect.Slice {
		b.ByName, b.kind = true, reflect.TypeFor[Span]()
	}
	switch b.kind {
	case reflect.TypeFor[Size]():
		b.Unit = "bytes"
	case reflect.TypeFor[Span]():
		b.Unit = "time"
	case reflect.TypeFor[Money]():
		b.Unit = "US dollars"
	}
	return b
}

// boundsOf returns the bounds of the flag of a limit.
func boundsOf(flag *kong.Flag) Bounds { return BoundsOf(flag.Target.Type(), flag.Tag.Get) }

// Allowed says in words which values are allowed.
func (b Bounds) Allowed() string {
	var words string
	switch {
	case b.Enum != "":
		words = strings.ReplaceAll(b.Enum, ",", ", ")
	case b.Min != "" && b.Max != "":
		words = b.Min + " to " + b.Max
	case b.Min != "":
		words = b.Min + " or more"
	case b.Max != "":
		words = "at most " + b.Max
	}
	if b.None {
		words = strings.TrimPrefix(words+", or "+none, ", or ")
	}
	return words
}

// Check returns what is wrong with the value of a limit; empty: nothing is.
func (b Bounds) Check(value reflect.Value) string {
	if b.ByName {
		return b.checkList(value)
	}
	if b.kind.Kind() != reflect.Int64 {
		return ""
	}
	n := value.Int()
	switch {
	case n == 0: // not set
	case n == Unlimited && !b.None:
		return b.fault(none)
	case n != Unlimited && (b.Min != "" && n < b.number(b.Min) || b.Max != "" && n > b.number(b.Max)):
		return b.fault(b.text(n))
	}
	return ""
}

// checkList checks a list of NAME=VALUE.
func (b Bounds) checkList(value reflect.Value) string {
	if _, err := Spans(value.Interface().([]string)); err != nil {
		return err.Error()
	}
	return ""
}

func (b Bounds) fault(value string) string {
	return fmt.Sprintf("the value %s is not allowed: use %s", value, b.Allowed())
}

// number returns a bound as a number.
func (b Bounds) number(text string) int64 {
	value := reflect.New(b.kind)
	if err := value.Interface().(interface{ UnmarshalText([]byte) error }).UnmarshalText([]byte(text)); err != nil {
		panic(err) // a tag of this program
	}
	return value.Elem().Int()
}

func (b Bounds) text(n int64) string {
	switch b.kind {
	case reflect.TypeFor[Span]():
		return time.Duration(n).String()
	case reflect.TypeFor[Size]():
		return Size(n).String()
	}
	return strconv.FormatInt(n, 10)
}

// Spans reads a list of NAME=DURATION. none is Unlimited. Invalid: what is wrong with it.
func Spans(list []string) (map[string]time.Duration, error) {
	var all map[string]time.Duration
	for _, entry := range list {
		name, text, ok := strings.Cut(entry, "=")
		var span Span
		if !ok || name == "" {
			return nil, fmt.Errorf("%w entry %.80q: use NAME=DURATION, for instance bash=30s", perdure.Invalid, entry)
		}
		if err := span.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if span == 0 {
			return nil, fmt.Errorf("%w entry %.80q: it has no duration", perdure.Invalid, entry)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%w list: it has %s twice", perdure.Invalid, name)
		}
		if all == nil {
			all = map[string]time.Duration{}
		}
		all[name] = time.Duration(span)
	}
	return all, nil
}

// CheckLimits returns what is wrong with the limits that the environment or the command line set.
// Those of files are checked with their line.
func CheckLimits(root *kong.Node) error {
	for _, flag := range root.Flags {
		if !IsLimit(flag) {
			continue
		}
		if fault := boundsOf(flag).Check(flag.Target); fault != "" {
			return fmt.Errorf("%w limit: --%s: %s", perdure.Invalid, flag.Name, fault)
		}
	}
	return nil
}

// schemaOfLimit adds the bounds of a limit to its schema.
func schemaOfLimit(flag *kong.Flag, of map[string]any) {
	b := boundsOf(flag)
	words := strings.TrimSpace(of["description"].(string) + " Default: " + cmp.Or(b.Default, none) + ".")
	if b.Allowed() != "" {
		words += " Allowed: " + b.Allowed() + "."
	}
	of["description"] = words
	if flag.HasDefault && flag.Default != "" {
		of["default"] = flag.Default
	}
	switch b.kind {
	case reflect.TypeFor[Count]():
		number := map[string]any{"type": "integer"}
		if b.Min != "" {
			number["minimum"] = b.number(b.Min)
		}
		if b.Max != "" {
			number["maximum"] = b.number(b.Max)
		}
		delete(of, "type")
		of["anyOf"] = []any{number, map[string]any{"const": none}}
		if !b.None {
			delete(of, "anyOf")
			for key, value := range number {
				of[key] = value
			}
		}
	case reflect.TypeFor[Size]():
		of["type"] = []string{"integer", "string"}
		if b.Min != "" {
			of["minimum"] = b.number(b.Min)
		}
	case reflect.TypeFor[Money]():
		of["type"] = []string{"number", "string"}
	case reflect.TypeFor[Span]():
		of["type"] = "string"
	}
	if b.ByName {
		of["type"] = []string{"array", "object"}
		of["additionalProperties"] = map[string]any{"type": "string"}
	}
}

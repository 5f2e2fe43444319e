package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// versions are the flags of the commands that list what an agent or a harness was.
type versions struct {
	Limit int `help:"How many; 0 for all." placeholder:"N" default:"20"`
	output
}

// version is what such a list says of one.
type version struct {
	number     int64
	status, by string
	at         time.Time
	overlay    json.RawMessage
}

// listVersions prints what all finds.
func listVersions[T any](ctx context.Context, a *app, c versions, all func(Engine) ([]T, error), of func(T) version) error {
	if c.Limit < 0 {
		return misuse(fmt.Sprintf("--limit %d", c.Limit), "give 0 for all, or how many")
	}
	return a.read(ctx, func(eng Engine) error {
		found, err := all(eng)
		if err != nil {
			return err
		}
		return listing[T]{
			noun: "versions", head: []string{"VERSION", "STATUS", "BY", "AT", "OVERLAY"},
			name: func(one T) string { return fmt.Sprint(of(one).number) },
			row: func(one T) []cell {
				v := of(one)
				return []cell{{fmt.Sprint(v.number), bold}, {text: v.status}, {text: v.by}, {text: moment(v.at, a.now())}, {text: clip(string(v.overlay), cellChars)}}
			},
		}.print(ctx, a, c.output, found)
	})
}

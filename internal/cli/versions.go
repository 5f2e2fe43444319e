package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// versionList are the flags of the commands that list the versions of an agent or a harness.
type versionList struct {
	Limit int `help:"Maximum number; 0 for all." placeholder:"N" default:"20"`
	outputFlags
}

// agentVersion is one line of such a list.
type agentVersion struct {
	number     int64
	status, by string
	at         time.Time
	overlay    json.RawMessage
}

// listVersions prints the versions that all returns.
func listVersions[T any](ctx context.Context, a *app, c versionList,
	all func(Engine) ([]T, error), of func(T) agentVersion) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	return a.read(ctx, func(eng Engine) error {
		found, err := all(eng)
		if err != nil {
			return err
		}
		return outputList[T]{
			noun: "versions", head: []string{"VERSION", "STATUS", "BY", "AT", "OVERLAY"},
			name: func(one T) string { return fmt.Sprint(of(one).number) },
			row: func(one T) []cell {
				v := of(one)
				return []cell{{fmt.Sprint(v.number), bold}, {text: v.status}, {text: v.by},
					{text: moment(v.at, a.now())}, {text: clip(string(v.overlay), cellChars)}}
			},
		}.print(ctx, a, c.outputFlags, found)
	})
}

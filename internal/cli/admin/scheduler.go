package admin

import (
	"cmp"
	"context"
	"fmt"
)

// Scheduler shows or changes which scheduler works on a store.
type Scheduler struct {
	To string `help:"Give the store to this scheduler: local, or temporal:NAMESPACE/PREFIX. No server may work on the store." placeholder:"NAME"`
	outputFlags
}

// schedulerResult is the scheduler of a store.
type schedulerResult struct {
	Scheduler string `json:"scheduler"` // empty: none works on it yet
	Former    string `json:"former,omitempty"`
}

// Run prints the scheduler, after the change if one is asked for.
func (c *Scheduler) Run(ctx context.Context, d Console) error {
	place, err := storeOf(d)
	if err != nil {
		return err
	}
	hands := d.Operations()
	if c.To == "" {
		name, err := hands.Scheduler(ctx, place)
		if err != nil {
			return err
		}
		return c.show(d, schedulerResult{Scheduler: name})
	}
	former, err := hands.ChangeScheduler(ctx, place, c.To)
	if err != nil {
		return err
	}
	return c.show(d, schedulerResult{Scheduler: c.To, Former: former})
}

// show prints a result.
func (c *Scheduler) show(d Console, r schedulerResult) error {
	if c.Output == "json" {
		return c.print(d, r)
	}
	_, err := fmt.Fprintln(d.Out(), d.Safe(cmp.Or(r.Scheduler, "none yet: the first server decides")))
	return err
}

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

type costCommand struct {
	Report costReport `cmd:"" help:"Report usage and costs from the journals. Costs without a known price are shown as unknown."`
}

type costReport struct {
	By      string `help:"Group by session, turn, agent, model, tool, schedule or day." enum:"session,turn,agent,model,tool,schedule,day" default:"session"`
	Session string `help:"Only this session and its subagents." placeholder:"ID"`
	Since   string `help:"Only since this day (2006-01-02, in UTC) or RFC 3339 time." placeholder:"DAY"`
	Until   string `help:"Only before this day (2006-01-02, in UTC) or RFC 3339 time." placeholder:"DAY"`
	Split   string `help:"Print a line for each model or tool of each member of the group." enum:",model,tool" default:"" placeholder:"model|tool"`
	outputFlags
}

// Run prints the report.
func (c *costReport) Run(ctx context.Context, a *app) error {
	q := engine.CostQuery{Group: c.By, Split: c.Split}
	var err error
	if q.Since, err = readDay("--since", c.Since); err != nil {
		return err
	}
	if q.Until, err = readDay("--until", c.Until); err != nil {
		return err
	}
	return a.read(ctx, func(eng Engine) error {
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			q.Session = s.ID
		}
		report, err := eng.Budgets().Costs(ctx, q)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{report.Group, report, func() { budgetText{a}.costs(report) }})
	})
}

// readDay reads a day or a moment. An empty text is no moment.
func readDay(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageError(fmt.Sprintf("%s %q is not a day", flag, text), "use a format such as 2006-01-02 or 2006-01-02T15:04:05Z")
}

// costs prints a report on a terminal.
func (a budgetText) costs(r engine.CostReport) {
	var rows [][]cell
	for _, line := range append(slices.Clone(r.Items), r.Total) {
		shade := noColor(line.Unpriced)
		rows = append(rows, []cell{
			{strings.TrimSpace(line.Key + " " + line.Part), bold}, {text: fmt.Sprint(line.ModelCalls)}, {text: fmt.Sprint(line.InputTokens)},
			{text: fmt.Sprint(line.CachedTokens)},
			{text: fmt.Sprint(line.OutputTokens)}, {text: fmt.Sprint(line.ToolCalls)},
			{text: span(time.Duration(line.Milliseconds) * time.Millisecond)},
			{cost(line), shade},
		})
	}
	a.table([]string{strings.ToUpper(r.Group), "MODEL CALLS", "IN", "CACHED", "OUT", "TOOL CALLS", "MODEL+TOOL TIME", "COST"},
		rows)
	if r.Total.FailedCalls > 0 {
		a.message("contains %s that ended with an error, at a cost of %s", count(int(r.Total.FailedCalls), "model call"),
			cost(engine.CostLine{ModelCalls: r.Total.FailedCalls, Cost: r.Total.FailedCost, Unpriced: r.Total.FailedUnpriced}))
	}
	if r.Total.Unpriced > 0 {
		a.message("no price for %s; set PERDURE_PRICES to a file with your own prices",
			strings.Join(r.Total.Models, ", "))
	}
	a.message("calculated from %s, with prices as of %s", r.Source, r.AsOf)
}

func noColor(unpriced int64) color {
	if unpriced > 0 {
		return yellow
	}
	return dim
}

// cost formats the cost of a line. It is unknown while the price of any part is unknown.
func cost(l engine.CostLine) string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(l.Cost)) {
		parts = append(parts, l.Cost[c].String()+" "+string(c))
	}
	known := strings.Join(parts, ", ")
	switch {
	case l.Unpriced > 0 && known != "":
		return fmt.Sprintf("unknown: %s plus %s without a price", known, count(int(l.Unpriced), "model call"))
	case l.Unpriced > 0:
		return "unknown"
	case known == "" && l.ModelCalls == 0:
		return "-"
	case known == "":
		return "0 " + string(budget.USD)
	}
	return known
}

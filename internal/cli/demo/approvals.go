package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
)

// AskAbove is the amount above which a person is asked.
const AskAbove = 500

// Approvals is the demo of a person who is asked: an agent pays invoices, and large ones wait for a yes or a no.
type Approvals struct {
	Show
	Typed <-chan string // what a person types; nil: nobody is there, and the demo answers by itself
}

// Invoice is one that the agent is to pay.
type Invoice struct {
	Number int    `json:"number"`
	Payee  string `json:"payee"`
	Amount int    `json:"amount"`
}

// Invoices are those of the demo: of twenty, two are above AskAbove.
func Invoices() []Invoice {
	var all []Invoice
	for number := 1; number <= 20; number++ {
		amount := 20 + number*17%90
		if number%9 == 0 {
			amount *= 12
		}
		all = append(all, Invoice{number, fmt.Sprintf("supplier %d", number%7+1), amount})
	}
	return all
}

// Effect is how the ledger outside calls its payment.
func (i Invoice) Effect() string { return fmt.Sprintf("pay invoice %d", i.Number) }

// InvoiceFile is where it stands, below the demo's directory.
func InvoiceFile(number int) string { return filepath.Join("invoices", fmt.Sprintf("%d.json", number)) }

// desk is the place of the person who is asked. Its methods are called one after another.
type desk struct {
	Approvals
	scene *scene
	open  []perdure.Approval // asked, and not answered; the first is before the person
	asked int
	calls int
	said  map[perdure.ApprovalState]int
	no    []string // the effects that were refused
	what  map[perdure.ApprovalID]Invoice
}

// approvalsReport is the verdict on the demo.
type approvalsReport struct {
	chaos.Report
	Calls    int `json:"tool_calls"`
	Asked    int `json:"asked"`
	Approved int `json:"approved"`
	Denied   int `json:"denied"`
}

// Run runs the demo in a fresh directory and prints its story and its verdict.
func (d Approvals) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx) // without a limit of time: a person may take a while
	defer cancel()
	if err := d.prepare(); err != nil {
		return err // before anything is written: the folder may be somebody's
	}
	if err := d.lay(); err != nil {
		return err
	}
	seen := &desk{Approvals: d, said: map[perdure.ApprovalState]int{}, what: map[perdure.ApprovalID]Invoice{}}
	record, err := d.perform(ctx, PlayApprovals, seen.act, seen.orders)
	if err != nil {
		return err
	}
	report := approvalsReport{
		Report: chaos.Judge(record, chaos.Run{}), Calls: seen.calls, Asked: seen.asked,
		Approved: seen.said[perdure.ApprovalApproved], Denied: seen.said[perdure.ApprovalDenied],
	}
	for _, line := range record.Ledger {
		if slices.Contains(seen.no, line.Effect) {
			report.Violations = append(report.Violations, chaos.Violation{Text: line.Effect + " was done, although somebody said no"})
			report.OK = false
		}
	}
	if err := d.verdict(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w: its data is kept in %s", errBroken, d.Dir)
	}
	return d.leave()
}

// lay puts the invoices where the agent reads them.
func (d Approvals) lay() error {
	if err := os.MkdirAll(filepath.Join(d.Dir, "invoices"), 0o700); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	for _, invoice := range Invoices() {
		text, err := json.Marshal(invoice)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if err := os.WriteFile(filepath.Join(d.Dir, InvoiceFile(invoice.Number)), text, 0o600); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return nil
}

// act has the invoices paid.
func (d *desk) act(ctx context.Context, s *scene) error {
	d.scene = s
	d.line("perdure %s · scripted model, no network · data %s", d.Version, d.Dir)
	d.line("  read_invoice  pure          nobody is asked")
	d.line("  pay           at_most_once  above %d a person is asked, who sees exactly what is to be done", AskAbove)
	if err := s.eng.Send(ctx, s.id, perdure.Text("pay the invoices")); err != nil {
		return err
	}
	return s.play(ctx, audience{
		tell:  func(event perdure.Event) error { return d.tell(ctx, event) },
		typed: d.Typed,
		heard: func(line string) error { return d.hear(ctx, line) },
	})
}

// tell tells of one event.
func (d *desk) tell(ctx context.Context, event perdure.Event) error {
	switch f := event.Fact.(type) {
	case perdure.ToolStarted:
		d.calls++
	case perdure.ApprovalRequested:
		return d.ask(ctx, f.Approval)
	case perdure.ApprovalResolved:
		return d.answered(ctx, f)
	}
	return nil
}

// ask puts a question before the person, or behind those that are there.
func (d *desk) ask(ctx context.Context, p perdure.Approval) error {
	var invoice Invoice
	if err := perdure.DecodeJSON(p.Args, &invoice); err != nil {
		return err
	}
	d.asked++
	d.what[p.ID] = invoice
	if d.open = append(d.open, p); len(d.open) > 1 {
		return nil
	}
	return d.next(ctx)
}

// next asks the first question that is open.
func (d *desk) next(ctx context.Context) error {
	if len(d.open) == 0 {
		return nil
	}
	p := d.open[0]
	d.line("? %s %s %s", clock(), p.Tool, p.Args)
	if d.Typed == nil {
		first := len(d.said) == 0
		d.line("    there is no terminal to ask, so the demo answers by itself: %s", map[bool]string{true: "yes", false: "no"}[first])
		return d.decide(ctx, first)
	}
	d.line("    yes or no? [y/n]  or in another terminal: perdure approve --data %s %s", d.home(), p.ID)
	return nil
}

// hear takes what the person typed.
func (d *desk) hear(ctx context.Context, line string) error {
	if len(d.open) == 0 {
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return d.decide(ctx, true)
	case "n", "no":
		return d.decide(ctx, false)
	}
	d.line("    y or n?")
	return nil
}

// decide answers the first question that is open. Somebody in another terminal may have been faster.
func (d *desk) decide(ctx context.Context, yes bool) error {
	p := d.open[0]
	by := "demo"
	if d.Typed != nil {
		by = "operator"
	}
	_, err := d.scene.eng.DecideApproval(ctx, p.ID, perdure.Verdict{Approve: yes, By: by, ArgsHash: p.ArgsHash})
	if errors.Is(err, perdure.Conflict) {
		return nil
	}
	return err
}

// answered tells what was decided, here or elsewhere, and asks on.
func (d *desk) answered(ctx context.Context, f perdure.ApprovalResolved) error {
	first := len(d.open) > 0 && d.open[0].ID == f.Approval
	d.open = slices.DeleteFunc(d.open, func(p perdure.Approval) bool { return p.ID == f.Approval })
	d.said[f.State]++
	invoice := d.what[f.Approval]
	if f.State == perdure.ApprovalApproved {
		d.line("✓ %s %s by %s: invoice %d is paid, once, and exactly %d", clock(), f.State, f.By, invoice.Number, invoice.Amount)
	} else {
		d.no = append(d.no, invoice.Effect())
		d.line("✗ %s %s by %s: invoice %d is not paid, and the agent is told", clock(), f.State, f.By, invoice.Number)
	}
	if !first {
		return nil
	}
	return d.next(ctx)
}

// orders are the payments that nobody refused.
func (d *desk) orders(j chaos.Journal) []chaos.Order {
	var all []chaos.Order
	for _, invoice := range Invoices() {
		if !slices.Contains(d.no, invoice.Effect()) {
			all = append(all, chaos.Order{Session: j.Session, Tool: "pay", Effect: invoice.Effect()})
		}
	}
	return all
}

// verdict prints who was asked, and what was paid.
func (d Approvals) verdict(r approvalsReport) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.violations(r.Report)
	fmt.Fprintf(d.Out, "%d calls · asked %d times · approved %d · denied %d\n", r.Calls, r.Asked, r.Approved, r.Denied)
	return d.counts(r.Report)
}

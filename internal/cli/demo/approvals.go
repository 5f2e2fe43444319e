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

// AskAbove is the amount above which a payment needs approval.
const AskAbove = 500

// Approvals is the demo of approvals: an agent pays invoices, and large payments wait for a
// decision.
type Approvals struct {
	Options
	Typed <-chan string // the user's input; nil: there is no user, and the demo decides itself
}

// Invoice is an invoice to pay.
type Invoice struct {
	Number int    `json:"number"`
	Payee  string `json:"payee"`
	Amount int    `json:"amount"`
}

// Invoices returns the invoices of the demo: of twenty-five, two are above AskAbove. Each is read
// and paid, so that a person is asked about one call in twenty-five.
func Invoices() []Invoice {
	var all []Invoice
	for number := 1; number <= 25; number++ {
		amount := 20 + number*17%90
		if number%9 == 0 {
			amount *= 12
		}
		all = append(all, Invoice{number, fmt.Sprintf("supplier %d", number%7+1), amount})
	}
	return all
}

// Effect returns the name of the payment in the external ledger.
func (i Invoice) Effect() string { return fmt.Sprintf("pay invoice %d", i.Number) }

// InvoiceFile returns the path of an invoice below the directory of the demo.
func InvoiceFile(number int) string { return filepath.Join("invoices", fmt.Sprintf("%d.json", number)) }

// approvalsRun handles the decisions. Its methods are called one after another.
type approvalsRun struct {
	Approvals
	scene *runtime
	open  []perdure.Approval // open approvals; the first is shown to the user
	asked int
	calls int // of the agent, with those that were denied and never started
	said  map[perdure.ApprovalState]int
	no    []string // the effects that were denied
	what  map[perdure.ApprovalID]Invoice
}

// approvalsReport is the report of the demo.
type approvalsReport struct {
	chaos.Report
	Calls    int `json:"tool_calls"`
	Asked    int `json:"asked"`
	Approved int `json:"approved"`
	Denied   int `json:"denied"`
}

// Run runs the demo in a fresh directory and prints its story and its report.
func (d Approvals) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx) // without a time limit, since a user may take a while
	defer cancel()
	if err := d.prepare(); err != nil {
		return err // before anything is written: the folder may belong to somebody else
	}
	if err := d.writeInvoices(); err != nil {
		return err
	}
	seen := &approvalsRun{Approvals: d, said: map[perdure.ApprovalState]int{}, what: map[perdure.ApprovalID]Invoice{}}
	record, err := d.runScenario(ctx, ScenarioApprovals, seen.run, seen.orders)
	if err != nil {
		return err
	}
	report := approvalsReport{
		Report: chaos.Evaluate(record, chaos.Run{}), Calls: seen.calls, Asked: seen.asked,
		Approved: seen.said[perdure.ApprovalApproved], Denied: seen.said[perdure.ApprovalDenied],
	}
	for _, line := range record.Ledger {
		if slices.Contains(seen.no, line.Effect) {
			report.Violations = append(report.Violations,
				chaos.Violation{Text: line.Effect + " was done, although it was denied"})
			report.OK = false
		}
	}
	if err := d.verdict(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w; its data is kept in %s", errBroken, d.Dir)
	}
	return d.finish(ctx, ScenarioApprovals)
}

// writeInvoices writes the invoices to the folder that the agent reads.
func (d Approvals) writeInvoices() error {
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

// run runs the payments.
func (d *approvalsRun) run(ctx context.Context, s *runtime) error {
	d.scene = s
	d.line("perdure %s · scripted model, no network · data %s", d.Version, d.Dir)
	d.line("  read_invoice  pure          needs no approval")
	d.line("  pay           at_most_once  needs approval above %d, with the exact arguments shown", AskAbove)
	if _, err := s.eng.Send(ctx, s.id, perdure.Text("pay the invoices")); err != nil {
		return err
	}
	return s.follow(ctx, handlers{
		onEvent: func(event perdure.Event) error { return d.printEvent(ctx, event) },
		input:   d.Typed,
		onInput: func(line string) error { return d.readAnswer(ctx, line) },
	})
}

// printEvent prints an event.
func (d *approvalsRun) printEvent(ctx context.Context, event perdure.Event) error {
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

// ask adds an approval to the queue of the user.
func (d *approvalsRun) ask(ctx context.Context, p perdure.Approval) error {
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

// next shows the first open approval.
func (d *approvalsRun) next(ctx context.Context) error {
	if len(d.open) == 0 {
		return nil
	}
	p := d.open[0]
	d.line("? %s %s %s", clock(), p.Tool, p.Args)
	if d.Typed == nil && d.watched() {
		d.line("    approve or deny it in the browser")
		return nil
	}
	if d.Typed == nil {
		first := len(d.said) == 0
		d.line("    there is no terminal to ask, so the demo answers: %s",
			map[bool]string{true: "yes", false: "no"}[first])
		return d.decide(ctx, first)
	}
	if d.watched() {
		d.line("    approve? [y/n]  or decide in the browser")
		return nil
	}
	d.line("    approve? [y/n]  or in another terminal: perdure approve --data %s %s", d.dataFlag(), p.ID)
	return nil
}

// readAnswer handles a line of input.
func (d *approvalsRun) readAnswer(ctx context.Context, line string) error {
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

// decide decides the first open approval. Somebody in another terminal may have decided first.
func (d *approvalsRun) decide(ctx context.Context, yes bool) error {
	p := d.open[0]
	by := "demo"
	if d.Typed != nil {
		by = "operator"
	}
	_, err := d.scene.eng.Approvals().Decide(ctx, p.ID, perdure.Verdict{Approve: yes, By: by, ArgsHash: p.ArgsHash})
	if errors.Is(err, perdure.Conflict) {
		return nil
	}
	return err
}

// answered prints a decision from here or elsewhere, and shows the next approval.
func (d *approvalsRun) answered(ctx context.Context, f perdure.ApprovalResolved) error {
	first := len(d.open) > 0 && d.open[0].ID == f.Approval
	d.open = slices.DeleteFunc(d.open, func(p perdure.Approval) bool { return p.ID == f.Approval })
	d.said[f.State]++
	invoice := d.what[f.Approval]
	if f.State == perdure.ApprovalApproved {
		d.line("✓ %s %s by %s: invoice %d is paid once, exactly %d", clock(), f.State, f.By, invoice.Number,
			invoice.Amount)
	} else {
		d.calls++
		d.no = append(d.no, invoice.Effect())
		d.line("✗ %s %s by %s: invoice %d is not paid, and the agent is notified", clock(), f.State, f.By,
			invoice.Number)
	}
	if !first {
		return nil
	}
	return d.next(ctx)
}

// orders returns the payments that were not denied.
func (d *approvalsRun) orders(j chaos.Journal) []chaos.Order {
	var all []chaos.Order
	for _, invoice := range Invoices() {
		if !slices.Contains(d.no, invoice.Effect()) {
			all = append(all, chaos.Order{Session: j.Session, Tool: "pay", Effect: invoice.Effect()})
		}
	}
	return all
}

// verdict prints the decisions and the payments.
func (d Approvals) verdict(r approvalsReport) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.violations(r.Report)
	fmt.Fprintf(d.Out, "%d calls · asked %d times · approved %d · denied %d\n", r.Calls, r.Asked, r.Approved, r.Denied)
	return d.counts(r.Report)
}

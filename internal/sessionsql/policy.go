package sessionsql

import (
	"slices"
	"strings"

	driver "modernc.org/sqlite"
)

// mode is whose statement is being compiled.
type mode int

const (
	ours       mode = iota // the runtime's own
	reading                // a model's, that may only read
	collecting             // the same within the runtime's, which takes its rows
	writing                // a model's, that may write
)

// policy decides what a statement may be, while it is compiled. It is used only by whoever uses its connection.
type policy struct {
	mode   mode
	denied string // why the statement was refused; fit for the model
	writes bool   // the statement changes something
}

// begin sets the mode for what comes next.
func (p *policy) begin(m mode) { *p = policy{mode: m} }

// readOnlyPragmas only read, whatever argument they have.
var readOnlyPragmas = []string{
	"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
	"foreign_key_list", "foreign_key_check", "integrity_check", "quick_check",
}

// barePragmas only read as long as they have no argument.
var barePragmas = []string{"page_count", "page_size", "freelist_count", "max_page_count", "user_version", "foreign_keys", "encoding"}

// bannedFunctions reach out of the database, or take a time that grows with the square of their arguments and cannot be
// interrupted meanwhile.
var bannedFunctions = []string{"load_extension", "fts3_tokenizer", "json_patch", "rtreecheck", "sqlite_dbpage"}

// operation is what a statement would do, as SQLite says it.
type operation struct {
	action        driver.AuthorizerActionCode
	first, second string
	temp          bool // about the temporary database
}

// judge is the authorizer (SQ1). What it does not know it denies.
func (p *policy) judge(o operation) driver.AuthorizerReturnCode {
	if p.mode == ours {
		return driver.AuthorizerOK
	}
	reason := p.verdict(o)
	if reason == "" {
		return driver.AuthorizerOK
	}
	if p.denied == "" {
		p.denied = reason
	}
	return driver.AuthorizerDeny
}

// noTemp refuses what would be gone whenever its connection is closed, which nobody is told of.
const noTemp = "Not allowed here: temporary tables, views, indexes and triggers. Make ordinary ones, and drop them."

// verdict returns why something is denied; empty: it is not.
func (p *policy) verdict(o operation) string {
	switch o.action {
	case driver.AuthSelect, driver.AuthRead, driver.AuthRecursive:
		return ""
	case driver.AuthFunction:
		return p.function(strings.ToLower(o.second))
	case driver.AuthPragma:
		return pragma(strings.ToLower(o.first), o.second)
	case driver.AuthAttach:
		return "Not allowed here: ATTACH, VACUUM and VACUUM INTO. A statement works on one database; name another one in the call."
	case driver.AuthDetach:
		return "Not allowed here: DETACH."
	case driver.AuthTransaction, driver.AuthSavepoint:
		return "Not allowed here: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE. Each statement is a transaction of its own."
	case driver.AuthCreateTempIndex, driver.AuthCreateTempTable, driver.AuthCreateTempTrigger, driver.AuthCreateTempView,
		driver.AuthDropTempIndex, driver.AuthDropTempTable, driver.AuthDropTempTrigger, driver.AuthDropTempView:
		return noTemp
	case driver.AuthCreateVTable, driver.AuthDropVTable:
		return "Not allowed here: virtual tables."
	case driver.AuthCreateTable, driver.AuthCreateIndex, driver.AuthCreateTrigger, driver.AuthCreateView:
		if o.temp {
			return noTemp
		}
	}
	return p.change(o.action)
}

// change judges what changes a database.
func (p *policy) change(action driver.AuthorizerActionCode) string {
	changes := []driver.AuthorizerActionCode{
		driver.AuthInsert, driver.AuthUpdate, driver.AuthDelete, driver.AuthAlterTable, driver.AuthReindex, driver.AuthAnalyze,
		driver.AuthCreateTable, driver.AuthCreateIndex, driver.AuthCreateTrigger, driver.AuthCreateView,
		driver.AuthDropTable, driver.AuthDropIndex, driver.AuthDropTrigger, driver.AuthDropView,
	}
	switch {
	case !slices.Contains(changes, action):
		return "Not allowed here."
	case p.mode != writing:
		return "This statement changes the database, and a query only reads. Use sql_execute."
	}
	p.writes = true
	return ""
}

func (p *policy) function(name string) string {
	banned := slices.Contains(bannedFunctions, name) || strings.HasPrefix(name, "geopoly_") || strings.HasPrefix(name, "fts5")
	if banned || name == rowFunction && p.mode != collecting {
		return "Not allowed here: the function " + name + "."
	}
	return ""
}

func pragma(name, argument string) string {
	if slices.Contains(readOnlyPragmas, name) || argument == "" && slices.Contains(barePragmas, name) {
		return ""
	}
	return "Not allowed here: PRAGMA " + name + ". Allowed are " + strings.Join(readOnlyPragmas, ", ") + ", and without a value " +
		strings.Join(barePragmas, ", ") + "."
}

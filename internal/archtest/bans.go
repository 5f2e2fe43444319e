package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// What the root must not use: the clock, and the packages that bring time, randomness or I/O.
const (
	clockNames     = "Now Since Until After AfterFunc Tick NewTimer NewTicker Sleep"
	impurePackages = "crypto/rand database/sql math/rand net os syscall"
	pureExceptions = "net/mail net/netip net/url"
)

// Functions and types that connect without the dialer of internal/egress.
const (
	netDials = "Dial DialTimeout DialTCP DialUDP DialIP DialUnix Dialer " + lookups
	sysDials = "Connect Sendto SendmsgN Sendmsg"
	tlsDials = "Dial DialWithDialer Dialer"
	// a host name can carry a secret out
	lookups   = "DefaultResolver Resolver LookupAddr LookupCNAME LookupHost LookupIP LookupMX LookupNS LookupSRV LookupTXT ResolveIPAddr ResolveTCPAddr ResolveUDPAddr"
	httpDials = "DefaultClient DefaultTransport Get Head Post PostForm"
)

func checkInit(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		for _, fn := range functions(f) {
			if fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found,
					finding{path: f.path, line: f.line(fn.Pos()),
						message: "declares init: call a plain function from main or a constructor"})
			}
		}
	}
	return found
}

// checkPureRoot refuses the clock, randomness, goroutines and I/O in the root package and in the
// packages that it imports; these import no other module either. Tests are exempt.
func checkPureRoot(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.test || f.folder != "." && !isRootLeaf(f.folder) {
			continue
		}
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			if isImpure(p) {
				found = append(found, finding{path: f.path, line: f.line(spec.Pos()), message: fmt.Sprintf(
					"imports %s: the root decides from data alone, so pass the result as a parameter or a field", p)})
			}
			if _, ours := m.folderOf(p); !ours && foreign(p) && f.folder != "." {
				found = append(found, finding{path: f.path, line: f.line(spec.Pos()), message: fmt.Sprintf(
					"imports %s: the root imports this package, and it depends on the standard library only", p)})
			}
		}
		for _, ref := range f.references() {
			if ref.pkg == "time" && among(clockNames, ref.name) {
				found = append(found, finding{path: f.path, line: f.line(ref.node.Pos()), message: fmt.Sprintf(
					"uses time.%s: the root has no clock, so pass the time as a parameter", ref.name)})
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok {
				found = append(found,
					finding{path: f.path, line: f.line(statement.Pos()),
						message: "starts a goroutine: dispatch and the engines do that"})
			}
			return true
		})
	}
	return found
}

func isImpure(importPath string) bool {
	if among(pureExceptions, importPath) {
		return false
	}
	return slices.ContainsFunc(strings.Fields(impurePackages), func(p string) bool {
		return importPath == p || strings.HasPrefix(importPath, p+"/")
	})
}

// checkSleep refuses time.Sleep in tests and suites.
func checkSleep(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if !f.test && !f.suite() {
			continue
		}
		for _, ref := range f.references() {
			if ref.pkg == "time" && ref.name == "Sleep" {
				found = append(found,
					finding{path: f.path, line: f.line(ref.node.Pos()),
						message: "uses time.Sleep: use testing/synctest, or wait for a signal"})
			}
		}
	}
	return found
}

// checkSQL refuses SQL text outside store, also in tests.
func checkSQL(m *module) []finding {
	statement := regexp.MustCompile(`(?s)\b(SELECT|INSERT INTO|DELETE FROM|UPDATE\b.*\bSET)\b`)
	var found []finding
	for _, f := range m.files {
		if f.folder == "store" || strings.HasPrefix(f.folder, "store/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && statement.MatchString(text.Value) {
				found = append(found,
					finding{path: f.path, line: f.line(text.Pos()),
						message: "contains SQL: add a method to the store, in store/sqlstore"})
			}
			return true
		})
	}
	return found
}

// checkDial refuses connections that do not go through internal/egress. Tests are exempt.
func checkDial(m *module) []finding {
	dials := map[string]string{"net": netDials, "crypto/tls": tlsDials, "net/http": httpDials, "syscall": sysDials,
		"golang.org/x/sys/unix": sysDials}
	var found []finding
	for _, f := range m.files {
		if f.test || f.folder == "internal/egress" {
			continue
		}
		add := func(name string, node ast.Node) {
			found = append(found, finding{path: f.path, line: f.line(node.Pos()), message: fmt.Sprintf(
				"uses %s, which bypasses internal/egress: pass a client or a dialer of that package in the Config",
				name)})
		}
		for _, ref := range f.references() {
			if among(dials[ref.pkg], ref.name) {
				add(ref.pkg+"."+ref.name, ref.node)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if name := f.qualifiedType(literal.Type); name == "net/http.Client" && !sets(literal, "Transport") ||
				name == "net/http.Transport" && !sets(literal, "DialContext") {
				add("a plain "+name, literal)
			}
			return true
		})
	}
	return found
}

// sets reports whether a struct literal sets a field.
func sets(literal *ast.CompositeLit, field string) bool {
	return slices.ContainsFunc(literal.Elts, func(element ast.Expr) bool {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && key.Name == field
	})
}

// lenientReaders maps packages to their functions that decode JSON less strictly than
// perdure.DecodeJSON. Methods are reached through one of them, or through the type.
func lenientReaders() map[string]string {
	return map[string]string{
		"encoding/json":                            "Unmarshal NewDecoder Decoder",
		"encoding/json/v2":                         "Unmarshal UnmarshalRead UnmarshalDecode",
		"encoding/json/jsontext":                   "NewDecoder Decoder",
		"github.com/santhosh-tekuri/jsonschema/v6": "UnmarshalJSON",
	}
}

// lenientName returns the name of such a package in code.
func lenientName(pkg string) string {
	if strings.Contains(pkg, "jsonschema") {
		return "jsonschema"
	}
	return "json"
}

// checkJSON requires the strict decoder for input, because encoding/json accepts duplicate keys and
// ignores case. Tests are exempt.
func checkJSON(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.test {
			continue
		}
		for _, ref := range f.references() {
			if among(lenientReaders()[ref.pkg], ref.name) {
				found = append(found, finding{path: f.path, line: f.line(ref.node.Pos()), message: fmt.Sprintf(
					"uses %s.%s: use the strict decoder, or explain in exceptions.go why the bytes are our own",
					lenientName(ref.pkg), ref.name)})
			}
		}
	}
	return found
}

func among(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

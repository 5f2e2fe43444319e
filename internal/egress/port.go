package egress

import "slices"

// refusedPorts are the ports of well-known protocols other than HTTP: the "bad ports" of the Fetch
// standard, and those of databases and caches. Some of these servers would execute parts of an HTTP
// request line by line. A listing that names the port opens it; one without a port does not.
func refusedPorts() []string {
	return []string{
		"1", "7", "9", "11", "13", "15", "17", "19", "20", "21", "22", "23", "25", "37", "42", "43", "53", "69", "77", "79",
		"87", "95", "101", "102", "103", "104", "109", "110", "111", "113", "115", "117", "119", "123", "135", "137", "138",
		"139", "143", "161", "179", "389", "427", "445", "465", "512", "513", "514", "515", "526", "530", "531", "532", "540",
		"548", "554", "556", "563", "587", "601", "636", "873", "989", "990", "993", "995", "1719", "1720", "1723", "2049",
		"2375", "3306", "3389", "3659", "4045", "4190", "5060", "5061", "5432", "6000", "6379", "6566", "6665", "6666", "6667",
		"6668", "6669", "6679", "6697", "10080", "11211", "27017",
	}
}

// isRefusedPort reports whether a port belongs to a protocol other than HTTP.
func isRefusedPort(port string) bool { return slices.Contains(refusedPorts(), port) }

"""What people see: lines, tables, pages, and what is said while work goes on."""

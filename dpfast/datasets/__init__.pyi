from .census2000 import Table as Table, load_census2000 as load_census2000

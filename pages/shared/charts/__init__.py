"""Arrays in, Altair charts out; one chart per file. No Streamlit, no database.

Altair's habits that every chart here works around: columns have safe names of our own ("label", "value"), because field
names with dots or brackets are not escaped; numbers that are not finite are left out and counted in the title, because
they would silently become null.
"""
